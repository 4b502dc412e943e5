import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { test } from "node:test";
import { makePod, removeMade, type ScratchHost } from "../../../../src/migrate/rehearse/scratch-pods.js";
import { podConfig } from "../../plan/builders.js";

test("makePod() ends after the create that is under way, so that removeMade() finds the container", async () => {
  const made = new Set<string>();
  const calls = new EventEmitter();
  const asked = once(calls, "create");
  // As the Docker Engine: it makes the container whether or not the client still waits for it.
  const engine = {
    createContainer: (_name: string, _body: unknown, signal: AbortSignal) =>
      new Promise<string>((resolve, reject) => {
        signal.addEventListener("abort", () => reject(new Error("given up")));
        calls.once("made", () => resolve(made.add("late").size.toString()));
        calls.emit("create");
      }),
    listContainers: () => Promise.resolve([...made].map((id) => ({ id, labels: {} }))),
    removeContainer: (id: string) => Promise.resolve(made.delete(id)),
  } as unknown as ScratchHost["engine"];
  const pauseImage = "registry.example/pause:1";
  const node: ScratchHost["node"] = {
    ...{ program: "dockershim", cgroupDriver: "cgroupfs", networkMode: "default", pauseImage },
  };
  const host = { engine, node, directory: "/nowhere", checkpoints: "/nowhere" };
  const interrupted = new AbortController();
  const pod = { id: "0", config: podConfig({}), containers: [], answers: {} };
  const removed = makePod(pod, host, interrupted.signal).catch(async () => {
    await removeMade(engine, "/nowhere", AbortSignal.timeout(1_000));
  });
  await asked;
  interrupted.abort();
  setImmediate(() => calls.emit("made"));
  await removed;
  await new Promise(setImmediate);
  assert.deepEqual([...made], []);
});
