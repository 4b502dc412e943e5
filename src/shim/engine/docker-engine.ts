/** The engine port over the Docker Engine API. */
import type { Engine, VolumeCalls, VolumeSnapshot } from "../ports/engine.js";
import { archiveCalls } from "./archive.js";
import { containerCalls } from "./containers.js";
import { execCalls } from "./exec.js";
import { EngineClient, type EngineClientOptions } from "./http/client.js";
import { asObject, objectsOf, textOf } from "../../lib/json/json-readers.js";
import { imageCalls } from "./images.js";
import { systemCalls } from "./system.js";

/** Disposing of it breaks all connections, streams included: for the end of the program. */
export type DockerEngine = Engine & Disposable;

/**
 * One Docker Engine. Every call ends when its signal aborts and, streams and pulls aside, when its own
 * deadline passes; its connection is then closed, so that a frozen engine holds no more of them than there
 * are callers.
 */
export function dockerEngine(options: EngineClientOptions): DockerEngine {
  const client = new EngineClient(options);
  return {
    ...systemCalls(client),
    ...containerCalls(client),
    ...archiveCalls(client),
    ...execCalls(client),
    ...imageCalls(client),
    ...volumeCalls(client),
    [Symbol.dispose]: () => client.close(),
  };
}

function volumeCalls(client: EngineClient): VolumeCalls {
  return {
    async listVolumes({ key, value }, signal) {
      const query = { filters: JSON.stringify({ label: [`${key}=${value}`] }) };
      const answer = await client.json(
        { action: "list volumes", method: "GET", path: ["volumes"], query },
        signal,
      );
      return objectsOf(asObject(answer), "Volumes").map((volume) => textOf(volume, "Name"));
    },

    async inspectVolume(name, signal) {
      const action = `inspect volume "${name}"`;
      const answer = await client.jsonIfThere({ action, method: "GET", path: ["volumes", name] }, signal);
      return answer === undefined ? undefined : toVolumeSnapshot(answer);
    },

    async createVolume(name, labels, signal) {
      const json = { Name: name, Driver: "local", Labels: labels };
      const answer = await client.json(
        {
          ...{ action: `create volume "${name}"`, method: "POST", path: ["volumes", "create"], json },
          ...{ repeatable: true },
        },
        signal,
      );
      return toVolumeSnapshot(answer);
    },

    /** Never forced. */
    async removeVolume(name, signal) {
      const action = `remove volume "${name}"`;
      return client.outcome(
        { action, method: "DELETE", path: ["volumes", name] },
        { 204: "removed", 404: "missing" },
        signal,
      );
    },
  };
}

function toVolumeSnapshot(answer: unknown): VolumeSnapshot {
  const json = asObject(answer);
  return { mountpoint: textOf(json, "Mountpoint"), driver: textOf(json, "Driver") };
}
