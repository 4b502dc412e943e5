/** The engine starts after the shim, stops, and starts again. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { StatusResponse } from "../../src/domain/cri.js";
import { PodSandboxState } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { removeContainer } from "../support/docker.js";
import { RecordingProxy } from "../support/recording-proxy.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

function runtimeReady({ status }: StatusResponse) {
  return status?.conditions.find(({ type }) => type === "RuntimeReady");
}

describe("an engine that is not there", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  test("the shim serves, says why it is not ready, answers no list, and is ready when the engine appears", async () => {
    const socket = join(await bed.newDirectory(), "engine.sock");
    const shim = await bed.startShimWithoutEngine({ dockerEndpoint: `unix://${socket}` });
    const { cri } = shim;
    const condition = runtimeReady(await cri.Status({}));
    assert.equal(condition?.status, false);
    assert.equal(condition.reason, "DockerDaemonNotReady");
    assert.match(condition.message, /engine\.sock/);
    await rejectsWith(cri.ListPodSandbox({}), "UNAVAILABLE", /engine\.sock/);
    await rejectsWith(cri.ListContainers({}), "UNAVAILABLE");
    await rejectsWith(cri.ListImages({}), "UNAVAILABLE");
    await rejectsWith(cri.ContainerStatus({ container_id: "abc" }), "UNAVAILABLE");
    await rejectsWith(cri.StopPodSandbox({ pod_sandbox_id: "abc" }), "UNAVAILABLE");
    await rejectsWith(cri.RunPodSandbox({ config: bed.podConfig() }), "UNAVAILABLE");
    // One line per change, not one per attempt.
    assert.equal(shim.log.split('"msg":"engine lost"').length - 1, 1, shim.log);

    const proxy = await RecordingProxy.listen(socket);
    bed.onClose(() => proxy[Symbol.asyncDispose]());
    await until("the shim to be ready", async () => runtimeReady(await cri.Status({}))?.status);
    await using pod = await bed.runPod(cri);
    assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_READY);
    assert.equal(shim.log.split('"msg":"engine live"').length - 1, 1, shim.log);
  });

  test("a broken event stream is opened again: changes in between are seen", async () => {
    const proxy = await bed.startProxy();
    const shim = await bed.startShim({ dockerEndpoint: proxy.endpoint });
    const pod = await bed.runPod(shim.cri);
    proxy.cutConnections();
    await removeContainer(pod.id);
    await until("the sandbox to be gone", () =>
      pod.status().then(
        () => false,
        (error: unknown) => (error as { code?: number }).code === 5,
      ),
    );
    await pod[Symbol.asyncDispose]();
  });

  test("an inspect that hangs makes only its own status stale", async () => {
    const proxy = await bed.startProxy();
    const shim = await bed.startShim({ dockerEndpoint: proxy.endpoint });
    await using stuck = await bed.runPod(shim.cri);
    await using fine = await bed.runPod(shim.cri);
    const id = await stuck.start({
      command: ["sh", "-c", "read line < /dev/zero"],
      metadata: { name: "stuck" },
    });
    const hold = proxy.holdNext("before", ({ path }) => path === `/containers/${id}/json`);
    await removeContainer(id);
    await hold.held;
    const other = await fine.start();
    assert.equal((await fine.containerStatus(other)).state, 1);
    assert.equal((await stuck.status()).state, PodSandboxState.SANDBOX_READY);
    await shim.cri.ListContainers({});
    hold.release();
  });
});
