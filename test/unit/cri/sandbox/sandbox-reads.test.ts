import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { NamespaceMode, PodSandboxState, type PodSandboxFilter } from "../../../../src/domain/cri.js";
import { rejectsWith } from "../../../support/refusals.js";
import {
  containerResources,
  createRequest,
  hostNetworkRequest,
  podMetadata,
  runRequest,
  sandboxConfig,
} from "../../../fakes/requests.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";

const shim = shimOfEachTest();

const { SANDBOX_READY, SANDBOX_NOTREADY } = PodSandboxState;

async function list(shim: TestShim, filter: Partial<PodSandboxFilter> | null): Promise<readonly string[]> {
  const whole = filter === null ? null : { id: "", state: null, label_selector: {}, ...filter };
  const items = await shim.rpcs.ListPodSandbox({ filter: whole }, shim.call());
  return items.map(({ id = "" }) => id);
}

describe("listPodSandbox()", () => {
  test("filters by id, prefix, state and labels, all at once", async () => {
    const a = await shim.runSandbox();
    const b = await shim.runSandbox(runRequest({ metadata: podMetadata("db"), labels: { app: "db" } }));
    await shim.stopSandbox(b);
    const table: readonly (readonly [Partial<PodSandboxFilter> | null, readonly string[]])[] = [
      [null, [a, b]],
      [{ id: a }, [a]],
      [{ id: b.slice(0, 13) }, [b]],
      [{ id: "ffff" }, []],
      [{ state: { state: SANDBOX_READY } }, [a]],
      [{ state: { state: SANDBOX_NOTREADY } }, [b]],
      [{ label_selector: { app: "db" } }, [b]],
      [{ label_selector: { app: "db" }, state: { state: SANDBOX_READY } }, []],
      [{ label_selector: { app: "db" }, id: a }, []],
    ];
    for (const [filter, expected] of table)
      assert.deepEqual(await list(shim, filter), expected, JSON.stringify(filter));
  });

  test("shows sandboxes of a checkpoint only in the unfiltered list", async () => {
    const id = "e".repeat(64);
    shim.addCheckpoint(id);
    const items = await shim.rpcs.ListPodSandbox({ filter: null }, shim.call());
    assert.deepEqual(items[0]?.metadata, { name: "old", namespace: "ns", uid: "", attempt: 0 });
    assert.equal(items[0].state, SANDBOX_NOTREADY);
    assert.deepEqual(await list(shim, { state: { state: SANDBOX_READY } }), []);
  });

  test("shows no containers, and asks the engine nothing", async () => {
    const id = await shim.runSandbox();
    await shim.runContainer(id);
    shim.engine.containers.create("foreign", { Image: "busybox", Labels: {}, HostConfig: {} });
    shim.world.journal.clear();
    assert.deepEqual(await list(shim, null), [id]);
    assert.deepEqual(await list(shim, { id: "x" }), []);
    const requests = shim.world.journal.names().filter((name) => name.startsWith("engine."));
    assert.deepEqual(requests, []);
  });
});

describe("podSandboxStatus()", () => {
  const status = async (shim: TestShim, id: string, verbose = false) =>
    shim.rpcs.PodSandboxStatus({ pod_sandbox_id: id, verbose }, shim.call());

  test("answers what the request asked for, with the plugin's addresses", async () => {
    const id = await shim.runSandbox();
    const { status: answer, info } = await status(shim, id.slice(0, 12));
    assert.equal(answer?.id, id);
    assert.deepEqual(answer.metadata, { name: "web", namespace: "default", uid: "uid-1", attempt: 0 });
    assert.equal(answer.state, SANDBOX_READY);
    assert.deepEqual(answer.network, { ip: "10.1.0.5", additional_ips: [{ ip: "fd00::5" }] });
    assert.deepEqual([answer.labels, answer.annotations], [{ app: "web" }, { note: "hello" }]);
    const { POD, CONTAINER } = NamespaceMode;
    assert.deepEqual(answer.linux?.namespaces?.options, { network: POD, pid: CONTAINER, ipc: POD });
    assert.deepEqual(info, {});
  });

  test("answers only the first address where a node is not to have dual stack", async () => {
    await using shim = await TestShim.start({ settings: { allPodAddresses: false } });
    const id = await shim.runSandbox();
    assert.deepEqual((await status(shim, id)).status?.network, { ip: "10.1.0.5", additional_ips: [] });
  });

  test("answers Docker's address when the plugin leaves the network to Docker", async () => {
    shim.world.network.addresses = undefined;
    shim.world.network.dockerNetworkMode = "default";
    const id = await shim.runSandbox();
    assert.deepEqual((await status(shim, id)).status?.network, { ip: "172.17.0.2", additional_ips: [] });
  });

  test("answers the addresses of the set-up after a restart", async () => {
    const id = await shim.runSandbox();
    await using second = await shim.restart();
    shim.world.network.addresses = ["10.9.9.9"];
    assert.equal((await status(second, id)).status?.network?.ip, "10.1.0.5");
  });

  test("has no address in the host's network, and none after the stop", async () => {
    const host = await shim.runSandbox(hostNetworkRequest());
    const { status: answer } = await status(shim, host);
    assert.deepEqual(answer?.network, { ip: "", additional_ips: [] });
    assert.equal(answer.linux?.namespaces?.options?.network, NamespaceMode.NODE);
    const pod = await shim.runSandbox(runRequest({ metadata: podMetadata("two") }));
    await shim.stopSandbox(pod);
    const stopped = (await status(shim, pod)).status;
    assert.deepEqual([stopped?.state, stopped?.network?.ip], [SANDBOX_NOTREADY, ""]);
  });

  test("is NOT_FOUND for unknown ids, containers and sandboxes of a checkpoint alone", async () => {
    const container = await shim.runContainer();
    const checkpoint = "e".repeat(64);
    shim.addCheckpoint(checkpoint);
    for (const id of ["f".repeat(64), container, checkpoint]) await rejectsWith(status(shim, id), "notFound");
  });

  test("says more when it is asked to", async () => {
    const id = await shim.runSandbox();
    const { info } = await status(shim, id, true);
    const details = JSON.parse(info?.["info"] ?? "") as Record<string, unknown>;
    assert.equal(details["pid"], shim.engine.containers.get(id).state.pid);
    assert.equal(details["dockerName"], "k8s_POD_web_default_uid-1_0");
  });
});

/** Names with underscores: Kubernetes refuses them, the CRI does not. */

const underscored = { name: "a_b", namespace: "n_s", uid: "u_1", attempt: 0 };
/** A pod whose names are the escaped ones of the pod above. */
const lookalike = { name: "a.-b", namespace: "n.-s", uid: "u.-1", attempt: 0 };
const containerMetadata = { name: "c_d", attempt: 3 };

async function listedPods(): Promise<readonly unknown[]> {
  const items = await shim.rpcs.ListPodSandbox({ filter: null }, shim.call());
  return items.map(({ metadata }) => metadata);
}

describe("a pod with underscores in its names", () => {
  test("is listed under the names of its request, also when its record is lost", async () => {
    const sandbox = await shim.runSandbox(runRequest({ metadata: underscored }));
    const request = createRequest(sandbox, { metadata: containerMetadata });
    await shim.rpcs.CreateContainer(
      { ...request, sandbox_config: sandboxConfig({ metadata: underscored }) },
      shim.call(),
    );
    assert.equal(shim.engine.containers.get(sandbox).name, "k8s_POD_a.-b_n.-s_u.-1_0_escaped");
    for (const isLost of [false, true]) {
      if (isLost) await shim.services.records.pods.remove(sandbox);
      await shim.sync.refresh(sandbox);
      assert.deepEqual(await listedPods(), [underscored]);
      const containers = await shim.rpcs.ListContainers({ filter: null }, shim.call());
      const found = containers.map(({ metadata }) => metadata);
      assert.deepEqual(found, [containerMetadata]);
    }
  });

  test("is kept apart from a pod whose names are its escaped ones", async () => {
    await shim.runSandbox(runRequest({ metadata: underscored }));
    await shim.runSandbox(runRequest({ metadata: lookalike }));
    assert.deepEqual(new Set(await listedPods()), new Set([underscored, lookalike]));
  });

  test("takes a random suffix when a foreign container has its name, and is found", async () => {
    const body = { Image: "busybox", Labels: {}, HostConfig: {} };
    shim.engine.containers.create("k8s_POD_a.-b_n.-s_u.-1_0_escaped", body);
    const id = await shim.runSandbox(runRequest({ metadata: underscored }));
    assert.match(shim.engine.containers.get(id).name, /_0_escaped_[0-9a-f]{8}$/);
    await shim.services.records.pods.remove(id);
    await shim.sync.refresh(id);
    assert.deepEqual(await listedPods(), [underscored]);
  });
});

const overhead = containerResources({ memory_limit_in_bytes: "1000" });
const resources = containerResources({ cpu_shares: "512" });

async function shown(shim: TestShim, id: string): Promise<Readonly<Record<string, unknown>>> {
  const { info } = await shim.rpcs.PodSandboxStatus({ pod_sandbox_id: id, verbose: true }, shim.call());
  return JSON.parse(info?.["info"] ?? "{}") as Record<string, unknown>;
}

describe("updatePodSandboxResources()", () => {
  test("is remembered over a restart, field by field, and asks the engine nothing", async () => {
    await using first = await TestShim.start();
    const { linux } = sandboxConfig();
    assert.ok(linux);
    const id = await first.runSandbox(runRequest({ linux: { ...linux, overhead } }));
    const before = await shown(first, id);
    assert.deepEqual([before["overhead"], before["resources"]], [overhead, null]);
    first.world.journal.clear();
    const change = { pod_sandbox_id: id, overhead: null, resources };
    assert.deepEqual(await first.rpcs.UpdatePodSandboxResources(change, first.call()), {});
    const found = first.world.journal.names().filter((name) => name.startsWith("engine."));
    assert.deepEqual(found, []);
    await using shim = await first.restart();
    const after = await shown(shim, id);
    assert.deepEqual([after["overhead"], after["resources"]], [overhead, resources]);
  });

  test("succeeds for a sandbox of another program, which has no record", async () => {
    const id = await shim.runSandbox();
    await shim.services.records.pods.remove(id);
    const change = { pod_sandbox_id: id, overhead, resources };
    assert.deepEqual(await shim.rpcs.UpdatePodSandboxResources(change, shim.call()), {});
    assert.equal((await shown(shim, id))["resources"], undefined);
  });

  test("is notFound for unknown ids and for containers", async () => {
    const sandbox = await shim.runSandbox();
    const { container_id = "" } = await shim.rpcs.CreateContainer(createRequest(sandbox), shim.call());
    for (const id of [container_id, "f".repeat(64)]) {
      const change = { pod_sandbox_id: id, overhead, resources };
      await rejectsWith(shim.rpcs.UpdatePodSandboxResources(change, shim.call()), "notFound");
    }
  });

  test("refuses what would make the record too large to be read again", async () => {
    const id = await shim.runSandbox();
    const huge = containerResources({ unified: { "memory.high": "1".repeat(70_000) } });
    const change = { pod_sandbox_id: id, overhead: null, resources: huge };
    await rejectsWith(shim.rpcs.UpdatePodSandboxResources(change, shim.call()), "invalid", /^resources: /);
  });
});
