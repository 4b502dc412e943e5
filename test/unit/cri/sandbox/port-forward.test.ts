import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { PortForwardSession } from "../../../../src/shim/ports/streaming.js";
import { rejectsWith } from "../../../support/refusals.js";
import { shimOfEachTest, type TestShim } from "../../../fakes/services.js";

const shim = shimOfEachTest();

const never = new AbortController().signal;

async function open(shim: TestShim, id: string, port: readonly number[] = []): Promise<PortForwardSession> {
  const { url } = await shim.rpcs.PortForward({ pod_sandbox_id: id, port }, shim.call("PortForward"));
  return shim.world.streaming.portForward(url);
}

describe("portForward()", () => {
  test("offers connections to the ports that the client names", async () => {
    const id = await shim.runSandbox();
    const session = await open(shim, id.slice(0, 12), [80, 443]);
    assert.deepEqual([session.sandboxId, session.ports], [id, [80, 443]]);
    assert.deepEqual(shim.world.podDialer.calls, []);
    // Also one that is not in the request: SPDY clients name theirs when they open a stream.
    for (const port of [80, 8080]) (await session.connect(port, never)).destroy();
    assert.deepEqual(
      shim.world.podDialer.calls,
      [80, 8080].map((port) => ({ sandboxId: id, port })),
    );
  });

  test("says in an error which port of which pod it was", async () => {
    const id = await shim.runSandbox();
    const session = await open(shim, id);
    shim.world.podDialer.refuse = () => new ShimError("unavailable", "connection refused");
    const message = new RegExp(`^connect to port 81 of pod sandbox "${id}": connection refused$`);
    await rejectsWith(session.connect(81, never), "unavailable", message);
  });

  for (const port of [0, -1, 65_536, 1.5, NaN]) {
    test(`refuses port ${port} of a stream`, async () => {
      const session = await open(shim, await shim.runSandbox());
      await rejectsWith(session.connect(port, never), "invalid");
      assert.deepEqual(shim.world.podDialer.calls, []);
    });
  }

  test("makes no connection once the pod has stopped", async () => {
    const id = await shim.runSandbox();
    const session = await open(shim, id);
    await shim.stopSandbox(id);
    await rejectsWith(session.connect(80, never), "precondition", /not running/);
    await rejectsWith(open(shim, id), "precondition", /not running/);
    await rejectsWith(open(shim, "f".repeat(64)), "notFound");
    assert.deepEqual(shim.world.podDialer.calls, []);
  });
});
