import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { ProcessStreams } from "../../src/shim/ports/engine.js";
import { anySignal, execOf, type TestContainer } from "../support/engine-contract.js";
import { engineOfSuite, reasonToSkip } from "./engine-support.js";

describe("DockerEngine, exec", { skip: await reasonToSkip(), timeout: 120_000 }, () => {
  const at = engineOfSuite();
  let container: TestContainer;

  before(async () => {
    container = await at.container();
    await at.engine.startContainer(container.id, anySignal());
  });

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
});
