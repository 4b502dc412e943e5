/**
 * The requests that the engine sees, in order. The sequences of dockershim 1.20 and cri-dockerd 0.4 were recorded; what is
 * different here is what docs/understand/differences.md says, and that inspects come after a change (for the read model), not before.
 * The events of a change cause no further inspect.
 */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isEngineElsewhere } from "../support/engine-host.js";
import type { EngineProxy } from "../support/engine-proxy.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

/**
 * For an engine elsewhere without what reads: its logs come through the API, with inspects of their own, and the first
 * container proves what is in reach.
 */
function comparable(calls: readonly string[]): readonly string[] {
  return isEngineElsewhere ? calls.filter((call) => !call.startsWith("GET")) : calls;
}

function assertCalls(actual: readonly string[], expected: readonly string[]): void {
  assert.deepEqual(comparable(actual), comparable(expected));
}

describe("order of engine calls", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();
  let shim: ShimProcess;
  let proxy: EngineProxy;
  before(async () => {
    proxy = await bed.startProxy();
    shim = await bed.startShim({ dockerEndpoint: proxy.endpoint });
  });

  /** What is asked in the background ends, too. */
  async function untilQuiet(): Promise<void> {
    do {
      proxy.forget();
      await sleep(500);
    } while (proxy.calls.length > 0);
  }

  test("the life of a pod with one container, as a kubelet leads it, takes 14 requests", async () => {
    // The first pod of an image reads its user database, too. The event of a pause image that was loaded for it makes the
    // next one look for the image once more.
    for (let pods = 0; pods < 2; pods++) {
      await using pod = await bed.runPod(shim.cri);
      await pod.start();
    }
    await untilQuiet();
    const pod = await bed.runPod(shim.cri);
    const id = await pod.start({ command: ["sleep", "1000"] });
    await shim.cri.StopContainer({ container_id: id, timeout: "0" });
    await pod.stop();
    await shim.cri.RemoveContainer({ container_id: id });
    await pod.remove();
    await sleep(100);
    const calls = proxy.calls.map((call) => call.replace(/\?.*/, ""));
    const inspect = "GET /containers/ID/json";
    assertCalls(calls, [
      ...["POST /containers/create", "POST /containers/ID/start", inspect],
      ...["POST /containers/create", inspect, "POST /containers/ID/start", inspect],
      ...["POST /containers/ID/stop", inspect, inspect, "POST /containers/ID/stop", inspect],
      ...["DELETE /containers/ID", "DELETE /containers/ID"],
    ]);
  });

  test("a second StopPodSandbox only looks", async () => {
    await using pod = await bed.runPod(shim.cri);
    await pod.stop();
    proxy.forget();
    await pod.stop();
    assert.deepEqual(proxy.calls, ["GET /containers/ID/json"]);
  });
});
