import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { ExecRequest } from "../../../../src/domain/cri.js";
import { TestClient, textOf } from "../../../fakes/fake-streaming.js";
import { rejectsWith } from "../../../support/refusals.js";
import { shimOfEachTest } from "../../../fakes/services.js";
import { turns, until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

async function open(
  id: string,
  changes: Partial<ExecRequest> = {},
  options: { readonly highWaterMark?: number } = {},
): Promise<TestClient> {
  const all = { tty: false, stdin: true, stdout: true, stderr: true };
  const request = { container_id: id, cmd: ["sh"], ...all, ...changes };
  const { url } = await shim.rpcs.Exec(request, shim.call("Exec"));
  return new TestClient(shim.world.streaming.command(url), options);
}

describe("exec()", () => {
  test("offers a session and starts nothing before a client opens it", async () => {
    const id = await shim.runProcess({ exitCode: 0 });
    const flags = { tty: true, stdin: true, stdout: true, stderr: false };
    const request = { container_id: id.slice(0, 12), cmd: ["ls", "-l"], ...flags };
    const { url } = await shim.rpcs.Exec(request, shim.call("Exec"));
    const { kind, containerId, tty, stdin, stdout, stderr } = shim.world.streaming.command(url);
    assert.deepEqual([kind, containerId, { tty, stdin, stdout, stderr }], ["exec", id, flags]);
    assert.deepEqual(shim.world.journal.names("engine.createExec"), []);
  });

  test("carries output to the streams it is for, ends them, and returns the exit code", async () => {
    const output = [
      { stream: "stdout", data: Buffer.from("out") },
      { stream: "stderr", data: Buffer.from("err") },
    ] as const;
    const id = await shim.runProcess({ output, exitCode: 3, lingersForInspects: 1 });
    const client = await open(id);
    const streams = await Promise.all([textOf(client.stdout), textOf(client.stderr), client.result]);
    assert.deepEqual(streams, ["out", "err", 3]);
    assert.equal(shim.engine.execs.openStreams, 0);
    assert.deepEqual(shim.world.journal.names("host.killProcessTree"), []);
  });

  test("passes input on with its end", async () => {
    const id = await shim.runProcess({ echoes: true });
    const client = await open(id);
    client.stdin.write("hello ");
    client.stdin.end("there");
    assert.deepEqual(await Promise.all([textOf(client.stdout), client.result]), ["hello there", 0]);
    assert.equal(shim.engine.execs.inputOf("exec1"), "hello there");
  });

  test("reads no further while the client does not", async () => {
    const chunk = { stream: "stdout", data: Buffer.alloc(1000, "x") } as const;
    const output = Array.from({ length: 50 }, () => chunk);
    const id = await shim.runProcess({ output, exitCode: 0 });
    const client = await open(id, { stderr: false }, { highWaterMark: 2000 });
    await until("the client's buffer is full", () => client.stdout.writableNeedDrain);
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    assert.ok(client.stdout.writableLength + client.stdout.readableLength <= 6000);
    assert.equal((await textOf(client.stdout)).length, 50_000);
    assert.equal(await client.result, 0);
  });

  test("goes on without a stream that the client has closed", async () => {
    const output = Array.from({ length: 5 }, () => ({ stream: "stdout" as const, data: Buffer.alloc(1000) }));
    const id = await shim.runProcess({ output, exitCode: 4 });
    const client = await open(id, {}, { highWaterMark: 10 });
    client.stdout.destroy();
    client.stderr.resume();
    assert.equal(await client.result, 4);
  });

  test("ends the process when the client leaves, and throws why", async () => {
    const id = await shim.runProcess({});
    const client = await open(id);
    await until("the process runs", () => shim.engine.execs.running === 1);
    client.leave(new ShimError("cancelled", "the client left"));
    await rejectsWith(client.result, "cancelled", /the client left/);
    assert.deepEqual(shim.world.journal.argsOf("host.killProcessTree"), [[id, 5000]]);
    assert.deepEqual([shim.engine.execs.running, shim.engine.execs.openStreams], [0, 0]);
  });

  for (const verb of ["createExec", "startExec"]) {
    test(`leaves no process of a client that left during ${verb}, although the engine goes on`, async () => {
      const id = await shim.runProcess({});
      shim.engine.hangs = (called) => {
        if (called === verb && verb === "startExec")
          shim.engine.execs.start("exec1", new AbortController().signal).close();
        return called === verb;
      };
      const client = await open(id);
      await until("it is on its way", () => shim.world.journal.names(`engine.${verb}`).length === 1);
      await turns(2);
      client.leave(new ShimError("cancelled", "the client left"));
      await rejectsWith(client.result, "cancelled");
      assert.equal(shim.engine.execs.running, 0);
    });
  }

  test("gives the terminal the latest size, and tries again while the process is being started", async () => {
    const id = await shim.runProcess({ echoes: true });
    shim.world.journal.failNext("engine.resizeExec", new ShimError("precondition", "not yet"));
    const client = await open(id, { tty: true, stderr: false });
    client.resize(80, 24);
    await until("the size is there", () => shim.engine.execs.sizesOf("exec1").length === 1);
    for (const columns of [100, 101, 102]) client.resize(columns, 30);
    const last = (): number | undefined => shim.engine.execs.sizesOf("exec1").at(-1)?.columns;
    await until("the last size is there", () => last() === 102);
    client.stdin.end();
    assert.equal(await client.result, 0);
    assert.deepEqual(shim.engine.execs.sizesOf("exec1")[0], { columns: 80, rows: 24 });
    assert.ok(shim.engine.execs.sizesOf("exec1").length <= 4);
  });

  test("refuses a container that does not run, and unknown ids, like ExecSync", async () => {
    const id = await shim.runProcess({ exitCode: 0 });
    const execSync = (container_id: string): Promise<unknown> =>
      shim.rpcs.ExecSync({ container_id, cmd: ["sh"], timeout: "0" }, shim.call());
    await shim.stopContainer(id);
    for (const run of [(one: string) => open(one), execSync]) {
      await rejectsWith(run(id), "precondition", /container not running/);
      await rejectsWith(run("f".repeat(64)), "notFound");
    }
    assert.deepEqual(shim.world.streaming.offers, []);
    assert.deepEqual(shim.world.journal.names("engine.createExec"), []);
  });
});
