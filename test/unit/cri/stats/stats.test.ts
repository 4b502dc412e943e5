import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import type {
  Answer,
  ContainerStats,
  ContainerStatsFilter,
  PodSandboxStats,
} from "../../../../src/domain/cri.js";
import type { EngineReading, ResourceReading } from "../../../../src/domain/resource-reading.js";
import { toContainer } from "../../../../src/domain/container.js";
import { toSandbox } from "../../../../src/domain/sandbox.js";
import { toEngineReading } from "../../../../src/shim/engine/stats.js";
import { encodeEach } from "../../../../src/shim/grpc/codec/list-bytes.js";
import type { LayerUsage, PodReading, StatsSource } from "../../../../src/shim/ports/stats.js";
import { listContainerStats } from "../../../../src/shim/cri/stats/container-stats.js";
import { listPodSandboxStats } from "../../../../src/shim/cri/stats/pod-sandbox-stats.js";
import { containerStatsItem, podSandboxStatsItem } from "../../../../src/shim/cri/stats/stats-items.js";
import { parseInterfaces } from "../../../../src/shim/stats/network-interfaces.js";
import { sumReadings } from "../../../../src/shim/stats/sum-readings.js";
import { rejectsWith } from "../../../support/refusals.js";
import { hostNetworkRequest, podMetadata, runRequest } from "../../../fakes/requests.js";
import { shimOfEachTest } from "../../../fakes/services.js";
import { containerSnapshot, idOf, sandboxSnapshot } from "../../../fakes/snapshots.js";
import { layOut, readGolden, readOnce } from "../../stats/golden-cgroup.js";
import { runningPods } from "../../../../src/shim/cri/stats/pod-parts.js";
import { ReadModel } from "../../../../src/shim/state/read-model.js";

const shim = shimOfEachTest();

const [sandboxId, containerId] = [idOf("5a"), idOf("c0")];
const layer = { timestamp: 5n, usedBytes: 4096, inodes: 3 };

interface Items {
  readonly container: Answer<ContainerStats>;
  readonly pod: Answer<PodSandboxStats>;
}

/** The items of the recorded pod. */
async function itemsFrom(source: "v1" | "v2" | "engine"): Promise<Items> {
  const sandbox = toSandbox(sandboxSnapshot(sandboxId), undefined);
  const container = toContainer(containerSnapshot(containerId, sandboxId), sandbox?.pod);
  assert.ok(sandbox !== undefined && container !== undefined);
  const itemsOf = (
    own: ResourceReading,
    layerOfOwn: LayerUsage,
    resources: ResourceReading,
    interfaces: PodReading["interfaces"],
  ) => {
    const item = containerStatsItem(container, own, layerOfOwn, "/data");
    return {
      container: item,
      pod: podSandboxStatsItem(sandbox, { resources, interfaces, containers: new Map() }, [item]),
    };
  };
  if (source === "engine") {
    const golden = await readGolden("v2");
    const reading = toEngineReading(golden.engineStats)?.resources;
    const pause = toEngineReading(golden.pauseEngineStats);
    assert.ok(reading !== undefined && pause !== undefined);
    const sum = sumReadings([reading, pause.resources]);
    assert.ok(sum);
    const own = { ...reading, nanoCores: 1 };
    return itemsOf(own, { ...layer, inodes: undefined }, { ...sum, nanoCores: 1 }, pause.interfaces);
  }
  await using files = await layOut(source);
  return itemsOf(
    readOnce(files),
    layer,
    readOnce(files, { ofPod: true }),
    parseInterfaces(files.golden.netDev),
  );
}

type Fields = Readonly<Record<string, unknown>> | undefined;
const valueAt = (item: object, path: string): unknown =>
  path.split(".").reduce<unknown>((value, key) => (value as Fields)?.[key], item);

/** All paths to values that are no objects. */
function leavesOf(value: unknown, path = ""): readonly string[] {
  if (value === undefined || value === null) return [];
  if (typeof value !== "object" || Object.keys(value).length === 0) return [path];
  return Object.entries(value).flatMap(([key, part]) => leavesOf(part, path === "" ? key : `${path}.${key}`));
}

describe("docs/run/stats.md", async () => {
  const document = await readFile(new URL("../../../../docs/run/stats.md", import.meta.url), "utf8");
  const rows = document.split("\n").flatMap((line) => {
    const cells = line.split("|").map((cell) => cell.trim());
    const [, kind, path] = /^(container|pod) `([\w.]+)`$/.exec(cells[1] ?? "") ?? [];
    return path === undefined ? [] : [{ kind: kind as keyof Items, path, cells }];
  });

  for (const [column, source] of [
    [3, "v1"],
    [4, "v2"],
    [5, "engine"],
  ] as const) {
    test(`says which fields are filled from ${source}`, async () => {
      const items = await itemsFrom(source);
      assert.ok(rows.length > 50);
      for (const { kind, path, cells } of rows) {
        const value = valueAt(items[kind], path);
        if (cells[column] === "–") assert.equal(value, undefined, `${kind} ${path}`);
        else assert.ok(value !== undefined && value !== null, `${kind} ${path}`);
        if (path.endsWith("timestamp"))
          assert.ok(value === undefined || Number(value) > 0, `${kind} ${path}`);
      }
    });
  }

  test("leaves no field of a container out", async () => {
    const { container } = await itemsFrom("v2");
    const named = new Set(rows.filter(({ kind }) => kind === "container").map(({ path }) => path));
    const others = /\.Avg\d+$|metadata\.attempt$|^attributes\./;
    const unnamed = leavesOf(container).filter((path) => !named.has(path) && !others.test(path));
    assert.deepEqual(unnamed, []);
  });
});

/** An answer of the engine, with `usage` as CPU time and memory. */
function engineReading(usage: number): EngineReading {
  const reading = toEngineReading({
    cpu_stats: { cpu_usage: { total_usage: usage } },
    memory_stats: {
      usage,
      limit: usage * 2,
      stats: { anon: 1, inactive_file: 10, pgfault: 1, pgmajfault: 0 },
    },
    pids_stats: { current: 2 },
    networks: { eth0: { rx_bytes: 1, tx_bytes: 2 }, eth1: { rx_bytes: 3 } },
  });
  assert.ok(reading);
  return reading;
}

describe("statistics of containers", () => {
  test("ListContainerStats has running ones that pass the filter, and leaves out what cannot be read", async () => {
    const sandbox = await shim.runSandbox();
    const main = await shim.runContainer(sandbox, "main", { labels: { tier: "front" } });
    const other = await shim.runContainer(sandbox, "other", { labels: { tier: "back" } });
    await shim.runContainer(sandbox, "unreadable");
    const stopped = await shim.runContainer(sandbox, "stopped");
    for (const id of [main, other, stopped]) shim.engine.readings.set(id, engineReading(1000));
    await shim.stopContainer(stopped);
    const list = async (filter: Partial<ContainerStatsFilter> | null) => {
      const request = filter === null ? null : { id: "", pod_sandbox_id: "", label_selector: {}, ...filter };
      const stats = await shim.rpcs.ListContainerStats({ filter: request }, shim.call());
      return stats.map(({ attributes }) => attributes?.id);
    };
    assert.deepEqual(await list(null), [main, other]);
    assert.deepEqual(await list({}), [main, other]);
    assert.deepEqual(await list({ id: main.slice(0, 12) }), [main]);
    assert.deepEqual(await list({ pod_sandbox_id: idOf("ff") }), []);
    assert.deepEqual(await list({ pod_sandbox_id: sandbox, label_selector: { tier: "back" } }), [other]);
  });

  test("ContainerStats of a stopped container tells what it has written, of an unknown one NOT_FOUND", async () => {
    const id = await shim.runContainer();
    shim.engine.readings.set(id, engineReading(1000));
    shim.world.layers.set(id, layer);
    const read = async (): Promise<Answer<ContainerStats> | null | undefined> =>
      (await shim.rpcs.ContainerStats({ container_id: id }, shim.call())).stats;
    assert.equal((await read())?.memory?.working_set_bytes?.value, "990");
    await shim.stopContainer(id);
    const stopped = await read();
    assert.equal(stopped?.memory, undefined);
    assert.equal(stopped?.writable_layer?.used_bytes?.value, "4096");
    assert.equal(stopped.writable_layer.fs_id?.mountpoint, shim.engine.facts.dockerRootDir);
    await rejectsWith(shim.rpcs.ContainerStats({ container_id: idOf("ff") }, shim.call()), "notFound");
  });
});

describe("statistics of pods", () => {
  test("ListPodSandboxStats has ready ones with their containers; the network is not the host's", async () => {
    const sandbox = await shim.runSandbox();
    const container = await shim.runContainer(sandbox);
    const request = hostNetworkRequest();
    const config = { ...request.config, metadata: podMetadata("host") };
    const onHost = await shim.runSandbox({ ...request, config });
    for (const id of [sandbox, container, onHost]) shim.engine.readings.set(id, engineReading(1000));
    const stats = await shim.rpcs.ListPodSandboxStats({ filter: null }, shim.call());
    const shown = stats.map(({ attributes, linux }) => [
      ...[attributes?.id, linux?.memory?.usage_bytes?.value, linux?.process?.process_count?.value],
      ...[linux?.network?.default_interface?.name, linux?.network?.interfaces?.map(({ name }) => name)],
      linux?.containers?.map((one) => one.attributes?.id),
    ]);
    assert.deepEqual(shown, [
      [sandbox, "2000", "4", "eth0", ["eth1"], [container]],
      [onHost, "1000", "2", undefined, undefined, []],
    ]);
    const filter = { id: "", label_selector: { app: "nothing" } };
    assert.deepEqual(await shim.rpcs.ListPodSandboxStats({ filter }, shim.call()), []);
  });

  for (const rpc of ["ListPodSandboxStats", "ListContainerStats"] as const) {
    test(`${rpc} encodes each item before the next one is read`, async () => {
      const [sandboxes, containers]: readonly [string[], string[]] = [[], []];
      for (const name of ["one", "two"]) {
        const sandbox = await shim.runSandbox(runRequest({ metadata: podMetadata(name) }));
        sandboxes.push(sandbox);
        containers.push(await shim.runContainer(sandbox, name));
      }
      const steps: string[] = [];
      const readEach = async function* <Reading>(ids: Iterable<string>, reading: Reading) {
        for (const id of ids) {
          steps.push(`read ${id}`);
          yield await Promise.resolve([id, reading] as const);
        }
      };
      const pod = { resources: undefined, interfaces: undefined, containers: new Map() };
      const { resources } = engineReading(1000);
      const source: Pick<StatsSource, "readPods" | "readContainers"> = {
        readPods: (pods) =>
          readEach(
            pods.map(({ sandbox: { id } }) => id),
            pod,
          ),
        readContainers: (snapshots) =>
          readEach(
            snapshots.map(({ id }) => id),
            resources,
          ),
      };
      const services = {
        ...shim.services,
        stats: { ...shim.services.stats, source: () => source as StatsSource },
      };
      const encode = ({ attributes }: Answer<ContainerStats | PodSandboxStats>): Buffer => {
        steps.push(`encode ${attributes?.id ?? ""}`);
        return Buffer.alloc(0);
      };
      const isOfContainers = rpc === "ListContainerStats";
      await (isOfContainers
        ? encodeEach(listContainerStats({ filter: null }, services, shim.call()), encode)
        : encodeEach(listPodSandboxStats({ filter: null }, services, shim.call()), encode));
      const ids = isOfContainers ? containers : sandboxes;
      const expected = ids.flatMap((id) => [`read ${id}`, `encode ${id}`]);
      assert.deepEqual(steps, expected);
    });
  }

  test("PodSandboxStats of a ready one that cannot be read is UNAVAILABLE, and says why", async () => {
    const sandbox = await shim.runSandbox(runRequest());
    shim.engine.containerStats = () => Promise.reject(new Error("out of breath"));
    const read = shim.rpcs.PodSandboxStats({ pod_sandbox_id: sandbox }, shim.call());
    await rejectsWith(read, "unavailable", /out of breath/);
  });

  test("PodSandboxStats of one that has stopped is FAILED_PRECONDITION, of an unknown one NOT_FOUND", async () => {
    const sandbox = await shim.runSandbox(runRequest());
    shim.engine.readings.set(sandbox, engineReading(10));
    const read = (pod_sandbox_id: string): Promise<unknown> =>
      shim.rpcs.PodSandboxStats({ pod_sandbox_id }, shim.call());
    await read(sandbox.slice(0, 12));
    await shim.stopSandbox(sandbox);
    await rejectsWith(read(sandbox), "precondition", /not ready/);
    await rejectsWith(read(idOf("ff")), "notFound");
  });
});

/** Whether each pod has a cgroup of its own, by the cgroup parents of all. */
function ownCgroups(parents: readonly string[]): readonly boolean[] {
  const model = new ReadModel(() => undefined);
  parents.forEach((cgroupParent, index) => {
    const name = `k8s_POD_web${index}_default_uid-${index}_0`;
    model.put(sandboxSnapshot(idOf(String(index)), { cgroupParent, name }));
  });
  return runningPods([...model.sandboxes()], model).map(({ hasOwnCgroup }) => hasOwnCgroup);
}

describe("runningPods()", () => {
  const cases: readonly (readonly [string, readonly string[], readonly boolean[]])[] = [
    ["parents of a kubelet", ["/kubepods/besteffort/pod1", "/kubepods/pod2"], [true, true]],
    ["no parent", ["", ""], [false, false]],
    ["one parent for two", ["/shared", "/shared", "/own"], [false, false, true]],
    ["a parent above another", ["/kubepods", "/kubepods/pod1"], [false, true]],
    ["slices", ["kubepods-pod1.slice", "kubepods-pod2.slice", "kubepods.slice"], [true, true, false]],
    ["names that only begin alike", ["/pod1", "/pod10"], [true, true]],
  ];
  for (const [title, parents, expected] of cases) {
    test(`tells a cgroup of the pod's own: ${title}`, () => {
      assert.deepEqual(ownCgroups(parents), expected);
    });
  }

  test("takes ready sandboxes and running containers only", () => {
    const model = new ReadModel(() => undefined);
    const [ready, stopped] = [idOf("1"), idOf("2")];
    model.put(sandboxSnapshot(ready));
    model.put(sandboxSnapshot(stopped, { state: { running: false, status: "exited" } }));
    model.put(containerSnapshot(idOf("a"), ready, { state: { status: "paused" } }));
    model.put(containerSnapshot(idOf("b"), ready, { state: { running: false, status: "exited" } }));
    const pods = runningPods([...model.sandboxes()], model);
    const found = pods.map(({ pod, containers }) => [pod.id, containers.map(({ id }) => id)]);
    assert.deepEqual(found, [[ready, [idOf("a")]]]);
  });
});
