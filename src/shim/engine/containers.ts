/** The calls about containers. */
import { sleep, withDeadline } from "../../lib/abort.js";
import { isKind, ShimError } from "../../lib/errors.js";
import type { ContainerCalls } from "../ports/engine.js";
import {
  containerEssentials,
  listedContainerEssentials,
  toListedContainer,
  toSnapshot,
} from "./container-snapshot.js";
import { openBody } from "./http/answer.js";
import { type EngineClient, type EngineRequest, refusalOf } from "./http/client.js";
import { asObject, numberOf } from "../../lib/json/json-readers.js";
import { parseJson } from "./http/json.js";
import { OutputFrames } from "./http/process-streams.js";
import { toEngineReading } from "./stats.js";

/** 24 days in seconds. Docker's own arithmetic overflows at 292 years, a timer at 24.8 days. */
const longestGraceSeconds = 24 * 24 * 3600;
const removalPollMs = 50;
const removalInProgress = /removal of container \S+ is already in progress/;
const driverCannotRead = /does not support reading/;

export function containerCalls(client: EngineClient): ContainerCalls {
  const inspectContainer: ContainerCalls["inspectContainer"] = async (id, signal) => {
    const action = `inspect container "${id}"`;
    const answer = await client.request(
      { ...inspection(action, id), essentials: containerEssentials },
      signal,
    );
    if (answer.status === 404) return undefined;
    if (answer.status !== 200) throw refusalOf(answer);
    const snapshot = toSnapshot(parseJson(answer.body.toString("utf8"), action));
    return answer.isTrimmed ? { ...snapshot, isTrimmed: true } : snapshot;
  };

  /** Waits for a removal by another client. False: it failed and left the container behind. */
  const waitForRemoval = async (id: string, signal: AbortSignal): Promise<boolean> => {
    for (;;) {
      await sleep(removalPollMs, signal);
      const snapshot = await inspectContainer(id, signal);
      if (snapshot === undefined) return true;
      if (snapshot.state.status !== "removing") return false;
    }
  };

  return {
    inspectContainer,

    async listContainers({ labelKey, labelValue, ancestor, id }, signal, onProgress) {
      const label = labelValue === undefined ? labelKey : `${labelKey ?? ""}=${labelValue}`;
      const filters = {
        ...(label === undefined ? {} : { label: [label] }),
        ...(ancestor === undefined ? {} : { ancestor: [ancestor] }),
        ...(id === undefined ? {} : { id: [id] }),
      };
      const query = { all: "1", filters: JSON.stringify(filters) };
      return client.list(
        {
          action: "list containers",
          method: "GET",
          path: ["containers", "json"],
          query,
        },
        { essentials: listedContainerEssentials(labelKey), convert: toListedContainer, onProgress },
        signal,
      );
    },

    async createContainer(name, body, signal) {
      return client.createdId(
        {
          action: `create container "${name}"`,
          method: "POST",
          path: ["containers", "create"],
          query: { name },
          json: body,
        },
        signal,
      );
    },

    async startContainer(id, signal) {
      try {
        return await client.outcome(post(id, "start"), { 204: "started", 304: "already" }, signal);
      } catch (error) {
        if (!isKind(error, "notFound")) throw error;
        const { missing } = error.fields;
        // Else it is its network, or the container whose namespace it is to join.
        if (missing !== "network" && (missing !== "container" || error.message.includes(id))) throw error;
        throw new ShimError("precondition", error.message, error.fields, { cause: error });
      }
    },

    async stopContainer(id, graceSeconds, signal) {
      const grace = Math.min(Math.max(Math.ceil(graceSeconds), 0), longestGraceSeconds);
      const request: EngineRequest = {
        ...post(id, "stop", { t: String(grace) }),
        repeatable: true,
        // On a loaded host the kill takes minutes, too. The caller decides how long it waits.
        timeoutMs: Infinity,
      };
      return client.outcome(request, { 204: "stopped", 304: "already", 404: "missing" }, signal);
    },

    async killContainer(id, signalName, signal) {
      const request = post(id, "kill", { signal: signalName });
      return client.outcome(request, { 204: "killed", 404: "missing", 409: "notRunning" }, signal);
    },

    async removeContainer(id, { force }, signal) {
      const action = `remove container "${id}"`;
      const request: EngineRequest = {
        action,
        method: "DELETE",
        path: ["containers", id],
        query: { v: "1", force: force ? "1" : "0" },
        repeatable: true,
      };
      return withDeadline(signal, client.shortTimeoutMs, action, async (linked) => {
        for (;;) {
          const answer = await client.request(request, linked);
          if (answer.status === 204) return "removed";
          if (answer.status === 404) return "missing";
          const error = refusalOf(answer);
          if (answer.status !== 409 || !removalInProgress.test(error.message)) throw error;
          if (await waitForRemoval(id, linked)) return "removed";
        }
      });
    },

    async containerStats(id, signal) {
      const json = await client.jsonIfThere(
        {
          action: `read the statistics of container "${id}"`,
          method: "GET",
          path: ["containers", id, "stats"],
          // Without one-shot the engine waits for a second sample, which takes it a second or two.
          query: { stream: "false", "one-shot": "true" },
        },
        signal,
      );
      return json === undefined ? undefined : toEngineReading(json);
    },

    async writableLayerBytes(id, signal) {
      const request = inspection(`size container "${id}"`, id);
      const json = await client.jsonIfThere(
        { ...request, query: { size: "true" }, essentials: containerEssentials },
        signal,
      );
      return json === undefined ? undefined : numberOf(asObject(json), "SizeRw");
    },

    async updateContainer(id, resources, signal) {
      await client.json({ ...post(id, "update"), json: resources, repeatable: true }, signal);
    },

    async containerLogs(id, { sinceSeconds, follow, tty, tail }, signal) {
      const request: EngineRequest = {
        action: `read the log of container "${id}"`,
        method: "GET",
        path: ["containers", id, "logs"],
        query: {
          stdout: "1",
          stderr: "1",
          timestamps: "1",
          follow: follow ? "1" : "0",
          ...(sinceSeconds === 0 ? {} : { since: String(sinceSeconds) }),
          ...(tail === undefined ? {} : { tail: String(tail) }),
        },
      };
      const response = await client.open(request, signal).catch((error: unknown) => {
        const refused = ShimError.from(error);
        if (!driverCannotRead.test(refused.message)) throw refused;
        throw new ShimError("unsupported", refused.message, refused.fields, { cause: refused });
      });
      const body = openBody(response, request.action, signal);
      return {
        readOutput: async (take) => {
          const frames = new OutputFrames();
          for await (const chunk of body as AsyncIterable<Buffer>)
            await (tty ? take("stdout", chunk, false) : frames.push(chunk, take));
          if (!tty) frames.end();
        },
        close: () => {
          body.destroy(new ShimError("cancelled", `${request.action}: the connection was closed`));
        },
      };
    },
  };
}

function inspection(action: string, id: string): EngineRequest {
  return { action, method: "GET", path: ["containers", id, "json"] };
}

function post(id: string, verb: string, query: Readonly<Record<string, string>> = {}): EngineRequest {
  const action = `${verb} container "${id}"`;
  return { action, method: "POST", path: ["containers", id, verb], query };
}
