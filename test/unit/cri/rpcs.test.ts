import assert from "node:assert/strict";
import { test } from "node:test";
import { bindRpcs } from "../../../src/shim/cri/bind-rpcs.js";
import { rpcs as table } from "../../../src/shim/cri/rpcs.js";
import { criApi } from "../../../src/shim/grpc/codec/cri-api.js";
import { rejectsWith, runContainer, runSandbox } from "../../fakes/pods.js";
import { shimOfEachTest } from "../../fakes/services.js";

const shim = shimOfEachTest();

const api = criApi();

test("a request that is invalid, or whose fields are too large, reaches no handler", async () => {
  const rpcs = bindRpcs(shim.services, api.encodeItem);
  const stop = async (container_id: string) =>
    rpcs.get("StopContainer")?.handle({ container_id, timeout: "0" }, shim.call(), () => assert.fail());
  shim.world.journal.clear();
  await rejectsWith(stop(""), "invalid", /container_id/);
  await rejectsWith(stop("x".repeat(5_000_000)), "invalid", /container_id/);
  assert.deepEqual(shim.world.journal.names(), []);
});

test("a list with a filter neither gets nor replaces the kept bytes of the whole one", async () => {
  await runContainer(shim, await runSandbox(shim));
  const rpcs = bindRpcs(shim.services, api.encodeItem);
  const list = (filter: unknown) =>
    rpcs.get("ListContainers")?.handle({ filter }, shim.call(), () => assert.fail());
  const whole = await list(null);
  assert.equal(await list(null), whole);
  assert.equal(await list({ id: "", state: null, pod_sandbox_id: "", label_selector: {} }), whole);
  const none = await list({ id: "f".repeat(64), state: null, pod_sandbox_id: "", label_selector: {} });
  assert.deepEqual(none, Buffer.alloc(0));
  assert.equal(await list(null), whole);
});

test("a sandbox that only a checkpoint knows is listed without filter, and with an empty one", async () => {
  const id = "e".repeat(64);
  shim.world.checkpoints.stored.set(id, { version: "v1", namespace: "ns", name: "old", data: {} });
  const rpcs = bindRpcs(shim.services, api.encodeItem);
  const list = async (filter: unknown) =>
    String(await rpcs.get("ListPodSandbox")?.handle({ filter }, shim.call(), () => assert.fail()));
  const empty = { id: "", state: null, label_selector: {} };
  for (const filter of [null, empty]) assert.ok((await list(filter)).includes(id));
  assert.equal(await list({ ...empty, state: { state: 0 } }), "");
});

test("calls that change something are logged at info, all others at debug", () => {
  const changing = Object.entries(table).filter(([, { readOnly }]) => !readOnly);
  assert.deepEqual(changing.map(([name]) => name).sort(), [
    "Attach",
    "CheckpointContainer",
    "CreateContainer",
    "Exec",
    "PortForward",
    "PullImage",
    "RemoveContainer",
    "RemoveImage",
    "RemovePodSandbox",
    "ReopenContainerLog",
    "RunPodSandbox",
    "StartContainer",
    "StopContainer",
    "StopPodSandbox",
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
    "UpdateRuntimeConfig",
  ]);
});
