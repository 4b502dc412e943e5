import { nodeFiles } from "../../../../src/play/node/files.js";
import assert from "node:assert/strict";
import { appendFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { LogFollower } from "../../../../src/play/view/follow-logs.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { observedPod } from "../fake-cri.js";
import { ManualClock } from "../manual-clock.js";
import { shownPod } from "./shown-pod.js";

const spec = "  restartPolicy: Never\n  containers: [{name: a, image: x}, {name: b, image: x}]";

async function followed(t: TestContext) {
  const temporary = await temporaryDirectory();
  t.after(() => temporary[Symbol.asyncDispose]());
  const logs = temporary.path;
  const output: string[] = [];
  const reports: string[] = [];
  const { manifest, status } = await shownPod(spec, "");
  assert.ok(status);
  const follower = new LogFollower({
    files: nodeFiles,
    directories: { state: "/state", logs, seccomp: "/seccomp" },
    clock: new ManualClock(),
    output: ({ container, text }) => output.push(`${container}: ${text}`),
    report: (line) => reports.push(line),
  });
  const log = async (file: string, text: string): Promise<void> => {
    const path = join(logs, "default_web_uid-1", file);
    await mkdir(dirname(path), { recursive: true });
    await appendFile(path, text);
  };
  const see = (there: string): void => follower.onStatus(manifest, status, observedPod(manifest, there));
  t.after(() => follower[Symbol.asyncDispose]());
  return { follower, output, reports, log, see };
}

test("LogFollower reads the containers that the kubelet sees, each once to its end", async (t) => {
  const { follower, output, log, see } = await followed(t);
  see("a=running b=running");
  await log("a/0.log", '{"log":"one\\n","stream":"stdout"}\n');
  await follower.read();
  await log("b/0.log", "2024-05-01T10:00:00Z stderr F two\n");
  await log("a/0.log", '{"log":"no line end","stream":"stdout"}\n');
  see("a=0 b=running");
  await follower.read();
  assert.deepEqual(output, ["a: one", "b: two", "a: no line end"]);
  see("a=0 b=running");
  await follower.read();
  assert.equal(output.length, 3);
});

test("LogFollower reads what is left when it is disposed, also of removed containers", async (t) => {
  const { follower, output, log, see } = await followed(t);
  see("a=running b=running");
  await log("a/0.log", '{"log":"last words","stream":"stdout"}\n');
  see("b=running");
  await log("b/0.log", '{"log":"half a line","stream":"stdout"}\n');
  await follower[Symbol.asyncDispose]();
  assert.deepEqual(output, ["a: last words", "b: half a line"]);
});

test("LogFollower reads the log of a removed pod to its end, and lets go of it", async (t) => {
  const { follower, output, log, see } = await followed(t);
  see("a=running");
  await log("a/0.log", '{"log":"last words\\n","stream":"stdout"}\n');
  follower.onRemoved({ namespace: "default", name: "web" });
  await follower.read();
  await log("a/0.log", '{"log":"of another pod\\n","stream":"stdout"}\n');
  await follower.read();
  assert.deepEqual(output, ["a: last words"]);
});

test("LogFollower reports a log that cannot be read once, and goes on with others", async (t) => {
  const { follower, output, reports, log, see } = await followed(t);
  await log("a/0.log/x", "");
  await log("b/0.log", '{"log":"two\\n","stream":"stdout"}\n');
  see("a=running b=running");
  await follower.read();
  see("a=running b=running");
  await follower.read();
  assert.equal(reports.length, 1);
  const text = reports[0] ?? "";
  assert.match(text, /^default\/web: container a: its log cannot be read: read ".*": it is not a file/);
  assert.deepEqual(output, ["b: two"]);
});
