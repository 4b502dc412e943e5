import assert from "node:assert/strict";
import { appendFileSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { encodeCall, readCalls, type PipedCall } from "../../../../src/compare/relay/call-pipe.js";
import { createRecording, Recorder } from "../../../../src/compare/record/recorder.js";
import {
  openRecording,
  recordingFormat,
  type RecordedCall,
  type RecordingHeader,
} from "../../../../src/compare/record/recording.js";
import { Redactor } from "../../../../src/compare/record/redact.js";
import { temporaryDirectory, piped } from "../grpc-peers.js";

const header: RecordingHeader = {
  format: recordingFormat,
  version: 1,
  startedAt: "2026-01-31T00:00:00Z",
  server: { runtime_name: "docker" },
  node: { kernel: "6.1", architecture: "x64", cpus: 2, memoryBytes: 1 },
};

async function readAll(path: string): Promise<{ calls: RecordedCall[]; end: unknown }> {
  const recording = await openRecording(path);
  const calls: RecordedCall[] = [];
  for await (const call of recording.calls) calls.push(call);
  return { calls, end: recording.end() };
}

async function openRecorder(t: TestContext, limitBytes = 1e6) {
  const path = join(temporaryDirectory(t), "recording");
  await createRecording(path, header);
  const open = () => Recorder.open(path, { redactor: new Redactor(), startedMs: 50, limitBytes });
  return { path, open };
}

test("a recording has the header, calls without secrets, and its end; its file is private", async (t) => {
  const { path, open } = await openRecorder(t);
  await using recorder = await open();
  const config = {
    metadata: { name: "c" },
    envs: [{ key: "PASSWORD", value: Buffer.from("very-secret") }],
    command: ["sh"],
  };
  const call = piped("CreateContainer", { pod_sandbox_id: "p", config }, { container_id: "c1" });
  assert.equal(await recorder.write(call), true);
  const failed = { status: { code: 5, message: 'no "very-secret"' }, responses: [] };
  await recorder.write(piped("StartContainer", { container_id: "c1" }, {}, failed));
  await recorder.write({ ...call, path: "/other.Service/M" });
  await recorder.end("duration");

  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.ok(!readFileSync(path, "utf8").includes("very-secret"));
  const { calls, end } = await readAll(path);
  assert.deepEqual(end, { end: true, calls: 2, dropped: 0, reason: "duration" });
  const [created, started] = calls;
  assert.deepEqual([created?.at, created?.ms, created?.rpc], [50, 12.35, "CreateContainer"]);
  assert.deepEqual(created?.response, { container_id: "c1" });
  const recorded = created.request?.["config"] as { envs: object[]; command: string[] };
  assert.deepEqual(recorded.envs, [{ key: "PASSWORD", value: "redacted:1" }]);
  assert.deepEqual(recorded.command, ["sh"]);
  assert.deepEqual(started?.error, { code: 5, message: 'no "redacted:1"' });
  await assert.rejects(createRecording(path, header), { kind: "conflict", message: /the file exists/ });
});

test("commands in a container whose request is missing keep their program alone", async (t) => {
  const { path, open } = await openRecorder(t);
  await using recorder = await open();
  const config = { envs: [{ key: "PIN", value: Buffer.from("very-secret") }] };
  const call = piped("CreateContainer", { config }, { container_id: "c1" });
  await recorder.write({ ...call, requests: [], isTruncated: true });
  await recorder.write(piped("ExecSync", { container_id: "c1", cmd: ["check", "very-secret"] }, {}));
  assert.ok(!readFileSync(path, "utf8").includes("very-secret"));
});

test("a recorder that is started again goes on behind the last whole line", async (t) => {
  const { path, open } = await openRecorder(t);
  await using first = await open();
  await first.write(piped("Version", {}, {}));
  appendFileSync(path, '{"at":1,"ms"');
  await using second = await open();
  await second.write(piped("Status", {}, {}));
  await second.end("stopped");
  const { calls, end } = await readAll(path);
  const rpcs = calls.map(({ rpc }) => rpc);
  assert.deepEqual(rpcs, ["Version", "Status"]);
  assert.equal((end as { calls: number }).calls, 2);
});

test("a recorder that is started again gives no number a second time", async (t) => {
  const { path, open } = await openRecorder(t);
  for (const value of ["first", "second"]) {
    await using recorder = await open();
    const config = { envs: [{ key: "A", value: Buffer.from(value) }] };
    await recorder.write(piped("CreateContainer", { config }, {}));
  }
  const numbers = readFileSync(path, "utf8").match(/redacted:\d+/g) ?? [];
  assert.equal(numbers[0], "redacted:1");
  assert.equal(new Set(numbers).size, 2);
});

test("a recording ends at its largest size", async (t) => {
  const { path, open } = await openRecorder(t, 1000);
  await using recorder = await open();
  let written = 0;
  while (await recorder.write(piped("Version", {}, { runtime_name: "x".repeat(50) }))) written += 1;
  await recorder.end("size");
  assert.ok(written > 1 && written < 20);
  assert.ok(statSync(path).size < 1100);
});

describe("files that are no whole recording", () => {
  const line = JSON.stringify({ at: 1, ms: 1, rpc: "Version" });
  const text = (...lines: string[]): string => lines.map((one) => `${one}\n`).join("");
  const head = JSON.stringify(header);
  const cases: [name: string, content: string, message: RegExp][] = [
    ["an empty file", "", /the file is empty/],
    ["no JSON", text("hello"), /line 1: not a JSON object/],
    ["another format", text("{}"), /line 1: not the header of a recording/],
    ["a newer version", text(JSON.stringify({ ...header, version: 2 })), /has version 2, .* version 1; use/],
    ["a damaged line", text(head, line, "{{", line), /line 3: not a JSON object; record it again, or cut/],
    ["a line that is no call", text(head, JSON.stringify({ at: "x" })), /line 2: not a call/],
    [
      "a call behind the end",
      text(head, JSON.stringify({ end: true, calls: 0 }), line),
      /line 3: something follows/,
    ],
  ];
  for (const [name, content, message] of cases)
    test(`${name} is refused with its line`, async (t) => {
      const path = join(temporaryDirectory(t), "recording");
      writeFileSync(path, content);
      await assert.rejects(readAll(path), { kind: "invalid", message });
    });

  test("a recording that was cut off is read up to the cut", async (t) => {
    const path = join(temporaryDirectory(t), "recording");
    writeFileSync(path, text(head, line, line));
    truncateSync(path, statSync(path).size - 5);
    const { calls, end } = await readAll(path);
    assert.equal(calls.length, 1);
    assert.equal(end, undefined);
  });

  test("a file that is not there is named", async () => {
    await assert.rejects(readAll("/nonexistent/recording"), {
      kind: "invalid",
      message: /^read recording "\/nonexistent\/recording": no such file or directory; name a file/,
    });
  });

  test("a line has a limit", async (t) => {
    const path = join(temporaryDirectory(t), "recording");
    writeFileSync(path, text(head, "x".repeat(5000)));
    const recording = await openRecording(path, { largestLineBytes: 1000 });
    await assert.rejects(async () => {
      for await (const call of recording.calls) assert.fail(call.rpc);
    }, /line 2: longer than 1000 bytes/);
  });
});

test("calls pass the pipe in pieces of any size", async () => {
  const calls = [
    piped("Version", { version: "v1" }, { runtime_name: "a" }),
    piped("ListContainers", {}, {}, { status: undefined, end: "cancelled", responses: [] }),
    piped("Version", {}, { runtime_name: "x".repeat(10_000) }),
  ];
  const bytes = Buffer.concat(calls.map((call) => encodeCall(call, { dropped: 3, givenUp: 1 })));
  for (const step of [1, 7, 1000, bytes.length]) {
    const pieces = (async function* (): AsyncGenerator<Buffer> {
      for (let offset = 0; offset < bytes.length; offset += step) {
        await Promise.resolve();
        yield bytes.subarray(offset, offset + step);
      }
    })();
    const read: PipedCall[] = [];
    for await (const call of readCalls(pieces)) read.push(call);
    assert.deepEqual(
      read.map(({ path, end, requests, responses }) => [path, end, requests, responses]),
      calls.map(({ path, end, requests, responses }) => [path, end, requests, responses]),
    );
    assert.equal(read[1]?.status, undefined);
    assert.deepEqual(read[0]?.unobserved, { dropped: 3, givenUp: 1 });
  }
});
