/**
 * The requests that the engine sees, in order. The sequences of dockershim 1.20 and cri-dockerd 0.4 were recorded; what is
 * different here is what docs/understand/differences.md says, and that inspects come after a change (for the read model), not before.
 * The events of a change cause no further inspect.
 */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isEngineElsewhere } from "../support/engine-host.js";
import { describeRequest, type RecordingProxy } from "../support/recording-proxy.js";
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
  let proxy: RecordingProxy;
  before(async () => {
    proxy = await bed.startProxy();
    shim = await bed.startShim({ dockerEndpoint: proxy.endpoint });
  });

  /** What `act`, which answers an id, and its events make the shim ask about that container. */
  async function callsOf(act: () => Promise<string>): Promise<readonly string[]> {
    proxy.forget();
    const id = await act();
    // Events may arrive after the answer.
    await sleep(100);
    return proxy.requests
      .filter(({ path }) => path.includes(id) || path.startsWith("/containers/create?name=k8s_"))
      .map(describeRequest);
  }

  test("RunPodSandbox: (pause image), create, start, inspect", async () => {
    const run = async (): Promise<string> => {
      const config = bed.podConfig({ dns_config: { servers: ["10.0.0.1"] } });
      return (await shim.cri.RunPodSandbox({ config })).pod_sandbox_id;
    };
    const expected = [
      "POST /containers/create?name=NAME",
      "POST /containers/ID/start",
      "GET /containers/ID/json",
    ];
    assertCalls(await callsOf(run), expected);
    const calls = proxy.calls;
    const looked = calls.findIndex((call) => /^GET \/images\/.*\/json$/.test(call));
    assert.ok(looked !== -1 && looked < calls.indexOf(expected[0] ?? ""), calls.join("\n"));
    // It is known to be there from now on. An image event, such as the one of a pause image that had to be loaded for
    // the first pod, makes the shim look once more.
    const lookedAgain = async (): Promise<boolean> => {
      assertCalls(await callsOf(run), expected);
      return proxy.calls.some((call) => call.includes("/images/"));
    };
    assert.ok(!(await lookedAgain()) || !(await lookedAgain()), proxy.calls.join("\n"));
  });

  test("a container: create, inspect; start, inspect; stop, inspect; remove", async () => {
    await using pod = await bed.runPod(shim.cri);
    // Once per image the user database is read, too.
    await pod.create({ metadata: { name: "first" } });
    let id = "";
    const inspect = "GET /containers/ID/json";
    assertCalls(await callsOf(async () => (id = await pod.create())), [
      "POST /containers/create?name=NAME",
      inspect,
    ]);
    const calls = async (act: () => Promise<unknown>): Promise<readonly string[]> =>
      callsOf(async () => {
        await act();
        return id;
      });
    assertCalls(await calls(() => shim.cri.StartContainer({ container_id: id })), [
      "POST /containers/ID/start",
      inspect,
    ]);
    assertCalls(await calls(() => shim.cri.StopContainer({ container_id: id, timeout: "7" })), [
      "POST /containers/ID/stop?t=7",
      inspect,
    ]);
    assertCalls(await calls(() => shim.cri.RemoveContainer({ container_id: id })), [
      "DELETE /containers/ID?v=1&force=1",
    ]);
  });

  test("the life of a pod with one container, as a kubelet leads it, takes 14 requests", async () => {
    // The first pod of an image reads its user database, too.
    await using first = await bed.runPod(shim.cri);
    await first.start();
    proxy.forget();
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

  test("StopPodSandbox stops containers, then the sandbox; RemovePodSandbox removes in that order", async () => {
    const pod = await bed.runPod(shim.cri);
    const id = await pod.start({ command: ["sleep", "1000"] });
    const changes = (): readonly string[] =>
      proxy.requests
        .filter(({ method }) => method !== "GET")
        .map(({ method, path }) => `${method} ${path.replace(pod.id, "SANDBOX").replace(id, "CONTAINER")}`);
    proxy.forget();
    await pod.stop();
    assert.deepEqual(changes(), [
      "POST /containers/CONTAINER/stop?t=0",
      "POST /containers/SANDBOX/stop?t=10",
    ]);
    proxy.forget();
    await pod.remove();
    const removals = changes().filter((call) => call.startsWith("DELETE"));
    assert.deepEqual(
      removals.map((call) => call.replace(/\?.*/, "")),
      ["DELETE /containers/CONTAINER", "DELETE /containers/SANDBOX"],
    );
  });

  test("lists and statuses ask the engine nothing", async () => {
    await using pod = await bed.runPod(shim.cri);
    const id = await pod.start();
    await pod.containerStatus(id);
    proxy.forget();
    for (let round = 0; round < 10; round += 1) {
      await shim.cri.ListPodSandbox({});
      await shim.cri.ListContainers({});
      await pod.status();
      await pod.containerStatus(id);
    }
    // What other containers of this engine do may cause an inspect, never the calls.
    const own = proxy.requests.filter(({ path }) => path.includes(pod.id) || path.includes(id));
    const others = proxy.calls.filter((call) => call !== "GET /containers/ID/json");
    assert.deepEqual([...own, ...others], []);
  });
});
