/** Statistics against the files and the engine that they are of, by bounds: what grows is read before and after. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Answer, ContainerStats, PodSandboxStats } from "../../src/domain/cri.js";
import { dockerJson, podCgroup } from "../support/docker.js";
import { isEngineElsewhere } from "../support/engine-host.js";
import type { Pod } from "../support/pod.js";
import type { EngineProxy } from "../support/engine-proxy.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const mebibyte = 1024 * 1024;

interface EngineStats {
  readonly cpu_stats: { readonly cpu_usage: { readonly total_usage: number } };
  readonly memory_stats: { readonly usage: number; readonly limit: number };
  readonly pids_stats: { readonly current: number };
  readonly networks?: Readonly<Record<string, { readonly rx_bytes: number; readonly tx_bytes: number }>>;
}

async function engineStats(id: string): Promise<EngineStats> {
  return (await dockerJson("GET", `/containers/${id}/stats?stream=false&one-shot=true`)) as EngineStats;
}

function between(low: number, value: string | undefined, high: number, what: string): void {
  const number = Number(value);
  assert.ok(
    low <= number && number <= high,
    `${what}: ${String(low)} <= ${String(value)} <= ${String(high)}`,
  );
}

describe("statistics", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();
  let proxy: EngineProxy;
  let shim: ShimProcess;
  let pod: Pod;
  let container: string;
  before(async () => {
    proxy = await bed.startProxy();
    shim = await bed.startShim({ dockerEndpoint: proxy.endpoint });
    const { parent } = await podCgroup(`stats-${bed.run}`);
    pod = await bed.runPod(shim.cri, { linux: { cgroup_parent: parent } });
    container = await pod.start({
      command: ["sh", "-c", "dd if=/dev/zero of=/written bs=1024 count=3000; while :; do :; done"],
      linux: {
        resources: { memory_limit_in_bytes: String(64 * mebibyte), cpu_quota: "20000", cpu_period: "100000" },
      },
    });
  });

  const containerStats = async (): Promise<ContainerStats> => {
    const { stats } = await shim.cri.ListContainerStats({ filter: { id: container } });
    assert.equal(stats.length, 1);
    const [only] = stats;
    assert.ok(only);
    return only;
  };
  const podStats = async (): Promise<PodSandboxStats> => {
    const { stats } = await shim.cri.PodSandboxStats({ pod_sandbox_id: pod.id });
    assert.ok(stats);
    return stats;
  };

  test("a container's CPU time lies between two answers of the engine, and the pod's is no less", async () => {
    const earlier = await engineStats(container);
    const { cpu } = await containerStats();
    const ofPod = await podStats();
    const later = await engineStats(container);
    const low = earlier.cpu_stats.cpu_usage.total_usage;
    const high = later.cpu_stats.cpu_usage.total_usage;
    between(low, cpu?.usage_core_nano_seconds?.value, high, "CPU time");
    assert.ok(Number(ofPod.linux?.cpu?.usage_core_nano_seconds?.value) >= low);
    // It takes what its quota gives it: a fifth of a core, at most one in the first moments.
    between(1, cpu?.usage_nano_cores?.value, 2e9, "nano cores");
  });

  test("memory, limit and tasks are the engine's, and the network is the pod's", async () => {
    const engine = await engineStats(container);
    const { memory } = await containerStats();
    between(
      engine.memory_stats.usage - 8 * mebibyte,
      memory?.usage_bytes?.value,
      engine.memory_stats.usage + 8 * mebibyte,
      "usage",
    );
    assert.ok(Number(memory?.working_set_bytes?.value) <= Number(memory?.usage_bytes?.value));
    const available = Number(memory?.available_bytes?.value);
    assert.equal(available + Number(memory?.working_set_bytes?.value), 64 * mebibyte);
    const { linux } = await podStats();
    const { name, rx_bytes, tx_bytes } = linux?.network?.default_interface ?? {};
    assert.equal(name, "eth0");
    // Of the pod alone: nothing is sent here but what each network says by itself.
    for (const bytes of [rx_bytes, tx_bytes]) between(0, bytes?.value, mebibyte, "bytes");
    between(
      engine.pids_stats.current,
      linux?.process?.process_count?.value,
      engine.pids_stats.current + 10,
      "tasks",
    );
  });

  test("the size of the writable layer appears by itself", async () => {
    let layer: Answer<ContainerStats>["writable_layer"];
    await until("the layer was measured with the written file", async () => {
      layer = (await containerStats()).writable_layer;
      return Number(layer?.used_bytes?.value ?? 0) >= 3000 * 1024;
    });
    between(3000 * 1024, layer?.used_bytes?.value, 3200 * 1024, "used bytes");
    if (!isEngineElsewhere) between(2, layer?.inodes_used?.value, 20, "inodes");
    const { image_filesystems } = await shim.cri.ImageFsInfo({});
    assert.equal(layer?.fs_id?.mountpoint, image_filesystems[0]?.fs_id?.mountpoint);
  });

  test("metrics of the pod are there at once, and no call of them all makes an engine request", async () => {
    await containerStats();
    proxy.forget();
    const { descriptors } = await shim.cri.ListMetricDescriptors({});
    const { pod_metrics } = await shim.cri.ListPodSandboxMetrics({});
    const own = pod_metrics.find(({ pod_sandbox_id }) => pod_sandbox_id === pod.id);
    const seen = new Set(
      [...(own?.metrics ?? []), ...(own?.container_metrics ?? []).flatMap(({ metrics }) => metrics)].map(
        ({ name }) => name,
      ),
    );
    // docs/run/stats.md: of Docker's data root and of /proc.
    const ofHost = [
      ...["fs_limit_bytes", "fs_inodes_total", "fs_inodes_free"],
      ...["processes", "file_descriptors", "sockets"],
    ].map((name) => `container_${name}`);
    const mayBeMissing =
      /^container_(?:blkio|hugetlb|pressure|ulimits|fs_reads|fs_writes|spec_memory_reserv)/;
    assert.deepEqual(
      descriptors.map(({ name }) => name).filter((name) => !seen.has(name) && !mayBeMissing.test(name)),
      isEngineElsewhere ? ofHost : [],
    );
    await podStats();
    await shim.cri.ContainerStats({ container_id: container });
    await shim.cri.ListContainerStats({});
    await shim.cri.ListPodSandboxStats({});
    // Those of an engine elsewhere are read in the background.
    if (isEngineElsewhere) return;
    assert.deepEqual(
      proxy.requests.filter(({ path }) => path.includes("/stats") || path.includes("size=")),
      [],
    );
  });
});
