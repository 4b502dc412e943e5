/** Names with underscores: Kubernetes refuses them, the CRI does not. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ValidCreateContainer } from "../../../../src/domain/requests.js";
import { runSandbox } from "../../../fakes/pods.js";
import { createRequest, runRequest, sandboxConfig } from "../../../fakes/requests.js";
import { shimOfEachTest, type TestShim } from "../../../fakes/services.js";

const shim = shimOfEachTest();

const underscored = { name: "a_b", namespace: "n_s", uid: "u_1", attempt: 0 };
/** A pod whose names are the escaped ones of the pod above. */
const lookalike = { name: "a.-b", namespace: "n.-s", uid: "u.-1", attempt: 0 };
const containerMetadata = { name: "c_d", attempt: 3 };

function createIn(sandboxId: string, metadata = underscored): ValidCreateContainer {
  const request = createRequest(sandboxId, { metadata: containerMetadata });
  return { ...request, sandbox_config: sandboxConfig({ metadata }) };
}

async function create(shim: TestShim, sandboxId: string): Promise<string> {
  const request = createIn(sandboxId);
  return String((await shim.rpcs.CreateContainer(request, shim.call("CreateContainer"))).container_id);
}

async function podsOf(shim: TestShim): Promise<readonly unknown[]> {
  const items = await shim.rpcs.ListPodSandbox({ filter: null }, shim.call("ListPodSandbox"));
  return items.map(({ metadata }) => metadata);
}

async function containersOf(shim: TestShim): Promise<readonly unknown[]> {
  const call = shim.call("ListContainers");
  const containers = await shim.rpcs.ListContainers({ filter: null }, call);
  return containers.map(({ metadata }) => metadata);
}

describe("a pod with underscores in its names", () => {
  test("is listed under the names of its request, also when its record is lost", async () => {
    const sandbox = await runSandbox(shim, runRequest({ metadata: underscored }));
    await create(shim, sandbox);
    assert.equal(shim.engine.containers.get(sandbox).name, "k8s_POD_a.-b_n.-s_u.-1_0_escaped");
    assert.deepEqual(await podsOf(shim), [underscored]);
    assert.deepEqual(await containersOf(shim), [containerMetadata]);
    await shim.services.records.pods.remove(sandbox);
    await shim.services.state.sync.refresh(sandbox);
    assert.deepEqual(await podsOf(shim), [underscored]);
    assert.deepEqual(await containersOf(shim), [containerMetadata]);
  });

  test("is kept apart from a pod whose names are its escaped ones", async () => {
    await runSandbox(shim, runRequest({ metadata: underscored }));
    await runSandbox(shim, runRequest({ metadata: lookalike }));
    assert.deepEqual(new Set(await podsOf(shim)), new Set([underscored, lookalike]));
  });

  test("takes a random suffix when a foreign container has its name, and is found", async () => {
    shim.engine.containers.create("k8s_POD_a.-b_n.-s_u.-1_0_escaped", {
      Image: "busybox",
      Labels: {},
      HostConfig: {},
    });
    const id = await runSandbox(shim, runRequest({ metadata: underscored }));
    assert.match(shim.engine.containers.get(id).name, /_0_escaped_[0-9a-f]{8}$/);
    await shim.services.records.pods.remove(id);
    await shim.services.state.sync.refresh(id);
    assert.deepEqual(await podsOf(shim), [underscored]);
  });
});
