/** The calls about the engine itself: whether it answers, what it is, what happens in it. */
import { ShimError } from "../../lib/errors.js";
import { asList, asObject, textOf } from "../../lib/json/json-readers.js";
import type { SystemCalls } from "../ports/engine.js";
import { eventsQuery, readEvents } from "./events.js";
import { highestMinor, negotiateMinor, toEngineVersion, toNodeFacts } from "./facts.js";
import { readChunks } from "./http/answer.js";
import { type EngineClient, refusalOf } from "./http/client.js";
import { brokenAnswer } from "./http/errors.js";

/** No image can have it: the id of a content that nobody knows. */
const absentImage = `sha256:${"0".repeat(64)}`;

export function systemCalls(client: EngineClient): SystemCalls {
  const readVersion = async (signal: AbortSignal): Promise<unknown> => {
    const action = "read the engine's version";
    return client.json({ action, method: "GET", path: ["version"], unversioned: true }, signal);
  };

  return {
    hasAnswered: (recentMs) => client.hasAnswered(recentMs),

    async ping({ timeoutMs }, signal) {
      const action = "ping the engine";
      const answer = await client.request(
        { action, method: "GET", path: ["_ping"], unversioned: true, timeoutMs },
        signal,
      );
      if (answer.status !== 200) throw refusalOf(answer);
    },

    async version(signal) {
      return toEngineVersion(await readVersion(signal));
    },

    async connect(signal) {
      const version = await readVersion(signal);
      const apiMinor = negotiateMinor(version);
      client.useApiMinor(apiMinor, highestMinor(version));
      const action = "read the engine's configuration";
      const info = await client.json({ action, method: "GET", path: ["info"] }, signal);
      return toNodeFacts(version, info, apiMinor);
    },

    /** By the list, which has no containers, unlike the inspect. */
    async hasDefaultNetwork(signal) {
      const action = "list the engine's own networks";
      const query = { filters: JSON.stringify({ type: ["builtin"] }) };
      const networks = await client.json({ action, method: "GET", path: ["networks"], query }, signal);
      return asList(networks).some((network) => textOf(asObject(network), "Name") === "bridge");
    },

    /** The engine checks the sources of bind mounts before it looks for the image, which cannot exist. */
    async firstMissingPath(paths, signal) {
      const action = "ask the engine for paths of its host";
      const Mounts = paths.map((Source, index) => ({
        ...{ Type: "bind", Source, Target: `/${index}`, ReadOnly: true },
      }));
      const answer = await client.request(
        {
          ...{ action, method: "POST", path: ["containers", "create"] },
          json: { Image: absentImage, HostConfig: { Mounts } },
        },
        signal,
      );
      if (answer.status < 300)
        throw new ShimError("internal", `${action}: it has made a container of ${absentImage}`);
      const message = answer.status === 404 ? "" : refusalOf(answer).message;
      return paths.find((path) => message.includes(path));
    },

    async *events(labelKey, onOpen, signal) {
      const action = "read engine events";
      try {
        const response = await client.open(
          {
            action,
            method: "GET",
            path: ["events"],
            query: eventsQuery(Date.now()),
          },
          signal,
        );
        onOpen();
        yield* readEvents(readChunks(response, action, signal), labelKey);
      } catch (error) {
        if (signal.aborted) return;
        throw error;
      }
      throw brokenAnswer(action);
    },
  };
}
