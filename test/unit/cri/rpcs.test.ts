import assert from "node:assert/strict";
import { test, describe } from "node:test";
import type { CallSubject } from "../../../src/lib/call.js";
import { bindRpcs } from "../../../src/shim/cri/bind-rpcs.js";
import { criApi } from "../../../src/shim/grpc/codec/cri-api.js";
import { rejectsWith } from "../../support/refusals.js";
import { shimOfEachTest, type TestShim } from "../../fakes/services.js";
import { PodSandboxState } from "../../../src/domain/cri.js";
import { toEngineReading } from "../../../src/shim/engine/stats.js";
import { podMetadata, runRequest } from "../../fakes/requests.js";

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

test("a call that subscribers hear of knows its pod and container, also what it makes or removes", async () => {
  const rpcs = bindRpcs(shim.services, api.encodeItem);
  const subjectOf = async (name: string, request: object): Promise<CallSubject> => {
    const subject: CallSubject = {};
    await rpcs.get(name)?.handle(request, { ...shim.call(name), subject }, () => assert.fail());
    return subject;
  };
  const { uid, namespace, name } = podMetadata("web");
  const pod = { pod: `${namespace}/${name}`, podUid: uid };
  const made = await subjectOf("RunPodSandbox", runRequest({ metadata: podMetadata("web") }));
  const { sandboxId = "" } = made;
  assert.deepEqual(made, { podUid: uid, sandboxId });
  assert.match(sandboxId, /^[\da-f]{64}$/);
  const containerId = await shim.createContainer(sandboxId, { metadata: { name: "app", attempt: 0 } });
  const container = { containerId, containerName: "app", sandboxId, ...pod };
  const remove = { container_id: containerId.slice(0, 20) };
  assert.deepEqual(await subjectOf("RemoveContainer", remove), container);
  assert.deepEqual(await subjectOf("RemovePodSandbox", { pod_sandbox_id: sandboxId }), { sandboxId, ...pod });
  assert.deepEqual(await subjectOf("RemovePodSandbox", { pod_sandbox_id: sandboxId }), {});
});

test("a list with a filter neither gets nor replaces the kept bytes of the whole one", async () => {
  await shim.runContainer();
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

/** Calls of RPCs as the server makes them. */
function server(shim: TestShim) {
  const rpcs = bindRpcs(shim.services, api.encodeItem);
  const handle = (name: string, request: object, send: (message: object) => Promise<void>) =>
    rpcs.get(name)?.handle(request, shim.call(name), send);
  return {
    answer: (name: string, request: object) => handle(name, request, () => assert.fail()),
    messages: async (name: string, request: object): Promise<readonly Buffer[]> => {
      const messages: Buffer[] = [];
      await handle(name, request, (message) => {
        messages.push(message as Buffer);
        return Promise.resolve();
      });
      return messages;
    },
  };
}

describe("streamed lists", () => {
  test("are those of the unary calls, filters included", async () => {
    const one = await shim.runSandbox(runRequest({ metadata: podMetadata("one") }));
    const two = await shim.runSandbox(runRequest({ metadata: podMetadata("two") }));
    const container = await shim.runContainer(one, "main");
    await shim.createContainer(two, { metadata: { name: "other", attempt: 0 } });
    await shim.stopSandbox(two);
    const reading = toEngineReading({ cpu_stats: { cpu_usage: { total_usage: 1000 } } });
    assert.ok(reading);
    for (const id of [one, container]) shim.engine.readings.set(id, reading);
    const { answer, messages } = server(shim);

    const any = { id: "", state: null, label_selector: {} };
    const notReady = { state: PodSandboxState.SANDBOX_NOTREADY };
    for (const [stream, list, request] of [
      ["StreamPodSandboxes", "ListPodSandbox", { filter: null }],
      ["StreamPodSandboxes", "ListPodSandbox", { filter: { ...any, id: one.slice(0, 8) } }],
      ["StreamPodSandboxes", "ListPodSandbox", { filter: { ...any, state: notReady } }],
      ["StreamContainers", "ListContainers", { filter: null }],
      ["StreamContainers", "ListContainers", { filter: { ...any, pod_sandbox_id: one } }],
      ["StreamImages", "ListImages", { filter: null }],
    ] as const) {
      const [only, ...others] = await messages(stream, request);
      assert.ok(only !== undefined && only.length > 0 && others.length === 0, stream);
      assert.deepEqual(only, await answer(list, request));
    }
    // Each reading has a time of its own.
    for (const [name, request, id] of [
      ["StreamContainerStats", { filter: null }, container],
      ["StreamPodSandboxStats", { filter: null }, one],
      ["StreamPodSandboxMetrics", {}, one],
    ] as const) {
      const [only, ...others] = await messages(name, request);
      assert.ok(only?.includes(id) === true && others.length === 0, name);
    }
  });

  test("have no message when there is nothing", async () => {
    const { messages } = server(shim);
    for (const name of ["PodSandboxes", "Containers", "ContainerStats", "PodSandboxStats"])
      assert.deepEqual(await messages(`Stream${name}`, { filter: null }), []);
    assert.deepEqual(await messages("StreamPodSandboxMetrics", {}), []);
  });

  test("end with their client", async () => {
    await shim.runSandbox();
    const rpc = bindRpcs(shim.services, api.encodeItem).get("StreamPodSandboxes");
    const left = () => Promise.reject(new Error("the client left"));
    const streaming = rpc?.handle({ filter: null }, shim.call(), left) ?? assert.fail();
    await assert.rejects(streaming, /the client left/);
  });
});
