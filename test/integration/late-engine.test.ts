/** The engine starts after the shim. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { StatusResponse } from "../../src/domain/cri.js";
import { PodSandboxState } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { EngineProxy } from "../support/engine-proxy.js";
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

    bed.own(await EngineProxy.listen(socket));
    await until("the shim to be ready", async () => runtimeReady(await cri.Status({}))?.status);
    await using pod = await bed.runPod(cri);
    assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_READY);
    assert.equal(shim.log.split('"msg":"engine live"').length - 1, 1, shim.log);
  });
});
