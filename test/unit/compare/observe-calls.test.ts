import assert from "node:assert/strict";
import { readFileSync, readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { encodeCall } from "../../../src/compare/relay/call-pipe.js";
import { observeCalls, type RecordTask } from "../../../src/compare/observe-calls.js";
import { ObserverProcess } from "../../../src/compare/relay/observer-process.js";
import { createRecording } from "../../../src/compare/record/recorder.js";
import { recordingFormat } from "../../../src/compare/record/recording.js";
import { relayPaths } from "../../../src/compare/relay/relay-link.js";
import { silentLogger } from "../../../src/lib/log.js";
import { temporaryDirectory, piped } from "./grpc-peers.js";

/** Of a relay that lives: the link leads to it. */
async function bench(t: TestContext): Promise<RecordTask> {
  const directory = temporaryDirectory(t);
  const paths = relayPaths(join(directory, "cri.sock"), join(directory, "primary.sock"));
  symlinkSync(paths.relay, paths.listen);
  const output = join(directory, "recording");
  const node = { kernel: "", architecture: "", cpus: 1, memoryBytes: 1 };
  await createRecording(output, { format: recordingFormat, version: 1, startedAt: "", server: {}, node });
  return {
    kind: "record",
    paths,
    output,
    startedMs: 0,
    durationMs: undefined,
    limitBytes: 1e6,
    withOutput: false,
  };
}

async function* calls(count = 1): AsyncGenerator<Buffer> {
  await Promise.resolve();
  const { unobserved, ...call } = piped("Version", {}, {});
  for (let index = 0; index < count; index += 1) yield encodeCall(call, unobserved);
}

test("the link leads to the server when the relay has died, before the recording gets its end", async (t) => {
  const task = await bench(t);
  assert.equal(await observeCalls(task, calls()), 0);
  assert.equal(readlinkSync(task.paths.listen), task.paths.primary);
  assert.match(readFileSync(task.output, "utf8"), /"end":true/);
});

test("the link stays while the relay lives: the recording is full, or cannot be written", async (t) => {
  const task = await bench(t);
  assert.equal(await observeCalls({ ...task, limitBytes: 1 }, calls()), 3);
  assert.equal(readlinkSync(task.paths.listen), task.paths.relay);
  await assert.rejects(observeCalls({ ...task, output: "/nowhere/file" }, calls()), /write recording/);
  assert.equal(readlinkSync(task.paths.listen), task.paths.relay);
});

test("an observer process that cannot be started is tried again", async () => {
  let done = (): void => undefined;
  const again = new Promise<void>((resolve) => {
    done = resolve;
  });
  // spawn() throws for it, as it does without memory for a process.
  const command = ["\0"] as [string, ...string[]];
  const log = silentLogger();
  log.error = () => {
    if (observer.counts.starts === 2) done();
  };
  const observer = new ObserverProcess({ name: "observer", command, log, firstDelayMs: 1 });
  observer.start();
  await again;
  assert.equal(await observer.stop(0), false);
});
