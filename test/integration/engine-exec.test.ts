import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { isKind } from "../../src/lib/errors.js";
import type { ExecOptions, ProcessStreams } from "../../src/shim/ports/engine.js";
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

  test("its environment is added to that of the container", async () => {
    const options = execOf(["sh", "-c", 'echo "$A:${PATH:+path}"'], { env: ["A=1=2"] });
    const id = await at.engine.createExec(container.id, options, anySignal());
    const streams = await at.engine.startExec(id, options, anySignal());
    try {
      assert.deepEqual(await read(streams), { stdout: "1=2:path\n", stderr: "" });
    } finally {
      streams.close();
    }
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
