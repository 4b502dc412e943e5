import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { isKind } from "../../src/shim/lib/errors.js";
import type { ExecOptions, ExecState, ProcessStreams } from "../../src/shim/ports/engine.js";
import { anySignal, engineOfSuite, reasonToSkip, type TestContainer } from "./engine-support.js";

describe("DockerEngine, exec", { skip: await reasonToSkip(), timeout: 120_000 }, () => {
  const at = engineOfSuite();
  let container: TestContainer;

  before(async () => {
    container = await at.container();
    await at.engine.startContainer(container.id, anySignal());
  });

  function execOf(command: readonly string[], overrides: Partial<ExecOptions> = {}): ExecOptions {
    return { command, tty: false, stdin: false, stdout: true, stderr: true, ...overrides };
  }

  async function read(
    streams: ProcessStreams,
  ): Promise<{ readonly stdout: string; readonly stderr: string }> {
    const output = { stdout: "", stderr: "" };
    await streams.readOutput((stream, data) => {
      output[stream] += data.toString();
      return undefined;
    });
    return output;
  }

  async function ended(execId: string): Promise<ExecState | undefined> {
    for (;;) {
      const state = await at.engine.inspectExec(execId, anySignal());
      if (state?.running !== true) return state;
      await delay(10);
    }
  }

  test("output streams are told apart, and the exit code is there after the end", async () => {
    const options = execOf(["sh", "-c", "echo out; echo err >&2; exit 3"]);
    const id = await at.engine.createExec(container.id, options, anySignal());
    const before = await at.engine.inspectExec(id, anySignal());
    assert.deepEqual([before?.running, before?.exitCode], [false, undefined]);
    const streams = await at.engine.startExec(id, options, anySignal());
    try {
      assert.deepEqual(await read(streams), { stdout: "out\n", stderr: "err\n" });
    } finally {
      streams.close();
    }
    assert.equal((await ended(id))?.exitCode, 3);
  });

  test("ending the input half-closes: the process sees the end and its output still arrives", async () => {
    const options = execOf(["cat"], { stdin: true });
    const id = await at.engine.createExec(container.id, options, anySignal());
    const streams = await at.engine.startExec(id, options, anySignal());
    try {
      const text = "x".repeat(3_000_000);
      streams.input.end(text);
      const { stdout } = await read(streams);
      assert.equal(stdout.length, text.length);
    } finally {
      streams.close();
    }
    assert.equal((await ended(id))?.exitCode, 0);
  });

  test("with a tty everything is stdout, unframed", async () => {
    const options = execOf(["sh", "-c", "echo out; echo err >&2"], { tty: true });
    const id = await at.engine.createExec(container.id, options, anySignal());
    const streams = await at.engine.startExec(id, options, anySignal());
    try {
      assert.deepEqual(await read(streams), { stdout: "out\r\nerr\r\n", stderr: "" });
    } finally {
      streams.close();
    }
  });

  test("a slow reader makes the process wait instead of filling memory", async () => {
    const options = execOf(["dd", "if=/dev/zero", "bs=65536", "count=320"]);
    const id = await at.engine.createExec(container.id, options, anySignal());
    const streams = await at.engine.startExec(id, options, anySignal());
    let bytes = 0;
    try {
      let isFirst = true;
      await streams.readOutput((stream, data) => {
        if (stream === "stdout") bytes += data.length;
        if (!isFirst) return undefined;
        isFirst = false;
        return delay(300).then(async () => {
          // Not a byte is read while the taker waits: the process cannot have finished.
          assert.equal((await at.engine.inspectExec(id, anySignal()))?.running, true);
        });
      });
    } finally {
      streams.close();
    }
    assert.ok(bytes > 320 * 65536 - 300_000, String(bytes));
    assert.equal((await ended(id))?.exitCode, 0);
  });

  test("an abort ends the streams with its reason and leaves the process running", async () => {
    const options = execOf(["sleep", "3600"]);
    const id = await at.engine.createExec(container.id, options, anySignal());
    const caller = new AbortController();
    const streams = await at.engine.startExec(id, options, caller.signal);
    const reading = assert.rejects(read(streams), (error) => isKind(error, "cancelled"));
    while (((await at.engine.inspectExec(id, anySignal()))?.pid ?? 0) === 0) await delay(10);
    caller.abort();
    await reading;
    streams.close();
    assert.equal((await at.engine.inspectExec(id, anySignal()))?.running, true);
  });

  test("a program that does not exist is the exec's exit code, not an error", async () => {
    const options = execOf(["/no/such/program"]);
    const id = await at.engine.createExec(container.id, options, anySignal());
    const streams = await at.engine.startExec(id, options, anySignal()).catch((error: unknown) => error);
    if (streams instanceof Error) assert.match(streams.message, /no such file or directory/);
    else {
      const opened = streams as ProcessStreams;
      await read(opened);
      opened.close();
    }
    assert.ok([126, 127].includes((await ended(id))?.exitCode ?? 0));
  });

  test("an exec in a container that does not run is a precondition, in none notFound, none itself undefined", async () => {
    await using stopped = await at.container();
    const options = execOf(["true"]);
    await assert.rejects(at.engine.createExec(stopped.id, options, anySignal()), (error) =>
      isKind(error, "precondition"),
    );
    await assert.rejects(at.engine.createExec("nosuch", options, anySignal()), (error) =>
      isKind(error, "notFound"),
    );
    await assert.rejects(at.engine.startExec("nosuch", options, anySignal()), (error) =>
      isKind(error, "notFound"),
    );
    assert.equal(await at.engine.inspectExec("nosuch", anySignal()), undefined);
  });
});
