import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { AttachRequest } from "../../../../src/domain/cri.js";
import { TestClient, textOf } from "../../../fakes/fake-streaming.js";
import { rejectsWith } from "../../../support/refusals.js";
import { shimOfEachTest } from "../../../fakes/services.js";
import { until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

async function open(id: string, changes: Partial<AttachRequest> = {}): Promise<TestClient> {
  const request = { container_id: id, tty: false, stdin: true, stdout: true, stderr: true, ...changes };
  const { url } = await shim.rpcs.Attach(request, shim.call("Attach"));
  return new TestClient(shim.world.streaming.command(url));
}

const output = [
  { stream: "stdout", data: Buffer.from("out") },
  { stream: "stderr", data: Buffer.from("err") },
] as const;

describe("attach()", () => {
  test("carries the container's streams until it ends, and calls that a success", async () => {
    const id = await shim.runProcess({ output, exitCode: 9 });
    const client = await open(id);
    const streams = await Promise.all([textOf(client.stdout), textOf(client.stderr), client.result]);
    assert.deepEqual(streams, ["out", "err", 0]);
    assert.equal(shim.engine.execs.openStreams, 0);
  });

  for (const [asked, has, stderr] of [
    [false, false, true],
    [true, true, false],
    [false, true, true],
    [true, false, true],
  ] as const) {
    test(`the container's terminal decides: asked for ${asked}, has ${has}`, async () => {
      const id = await shim.runProcess({ exitCode: 0 }, { tty: has, stdin: true });
      const client = await open(id, { tty: asked, stderr: !asked });
      client.stdout.resume();
      client.stderr.resume();
      await client.result;
      assert.deepEqual(shim.world.journal.argsOf("engine.attachContainer"), [
        [id, { tty: has, stdin: true, stdout: true, stderr }],
      ]);
    });
  }

  test("resizes the container's terminal", async () => {
    const id = await shim.runProcess({ echoes: true }, { tty: true, stdin: true });
    const client = await open(id, { tty: true, stderr: false });
    client.resize(120, 40);
    const resizes = (): readonly unknown[] => shim.world.journal.argsOf("engine.resizeContainer");
    await until("the size is there", () => resizes().length === 1);
    assert.deepEqual(resizes(), [[id, { columns: 120, rows: 40 }]]);
    client.stdin.end();
    await client.result;
  });

  test("closes the engine's side when the client leaves, and kills nothing", async () => {
    const id = await shim.runProcess({});
    const client = await open(id);
    await until("it is attached", () => shim.engine.execs.openStreams === 1);
    client.leave(new ShimError("cancelled", "the client left"));
    await rejectsWith(client.result, "cancelled");
    assert.equal(shim.engine.execs.openStreams, 0);
    assert.deepEqual(shim.world.journal.names("host.killProcessTree"), []);
  });

  test("refuses a container that does not run, at the offer and when the session is opened", async () => {
    const id = await shim.runProcess({ exitCode: 0 });
    const request = { container_id: id, tty: false, stdin: false, stdout: true, stderr: false };
    const { url } = await shim.rpcs.Attach(request, shim.call("Attach"));
    await shim.stopContainer(id);
    await rejectsWith(open(id), "precondition", /container not running/);
    const late = new TestClient(shim.world.streaming.command(url));
    await rejectsWith(late.result, "precondition", /container not running/);
    await rejectsWith(open("f".repeat(64)), "notFound");
  });
});
