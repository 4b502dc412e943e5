import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import { MetricType, type Answer, type Metric } from "../../../../src/domain/cri.js";
import type { ResourceReading } from "../../../../src/domain/resource-reading.js";
import {
  listMetricDescriptors,
  listPodSandboxMetrics,
} from "../../../../src/shim/cri/stats/list-pod-sandbox-metrics.js";
import { criSample, takeSamples, type Sample } from "../../../../src/shim/cri/stats/metrics/metric.js";
import type { StatsSource } from "../../../../src/shim/ports/stats.js";
import { parseInterfaces } from "../../../../src/shim/stats/network-interfaces.js";
import { metricsPage } from "../../../../src/shim/cri/stats/metrics-page.js";
import { parsePrometheusText } from "../../../support/prometheus-text.js";
import { podMetadata, runRequest } from "../../../fakes/requests.js";
import { collect } from "../../../../src/lib/streams.js";
import { shimOfEachTest, type TestShim } from "../../../fakes/services.js";
import { layOut, readOnce } from "../../stats/golden-cgroup.js";

const shim = shimOfEachTest();

/** critest's list, by its rules: what must have a sample, and what must be described only, or not even that. */
const required = `
  cpu_cfs_periods_total cpu_cfs_throttled_periods_total cpu_cfs_throttled_seconds_total cpu_system_seconds_total
  cpu_usage_seconds_total cpu_user_seconds_total
  memory_cache memory_failcnt memory_failures_total memory_kernel_usage memory_mapped_file memory_max_usage_bytes
  memory_rss memory_swap memory_usage_bytes memory_working_set_bytes
  network_receive_bytes_total network_receive_errors_total network_receive_packets_dropped_total
  network_receive_packets_total network_transmit_bytes_total network_transmit_errors_total
  network_transmit_packets_dropped_total network_transmit_packets_total
  fs_inodes_free fs_inodes_total fs_limit_bytes fs_usage_bytes
  file_descriptors processes sockets threads threads_max
  last_seen oom_events_total spec_cpu_period spec_cpu_shares spec_memory_limit_bytes spec_memory_swap_limit_bytes
  start_time_seconds`;
const optional = `
  blkio_device_usage_total fs_reads_bytes_total fs_reads_total fs_writes_bytes_total fs_writes_total
  hugetlb_max_usage_bytes hugetlb_usage_bytes spec_cpu_quota spec_memory_reservation_limit_bytes ulimits_soft
  pressure_cpu_stalled_seconds_total pressure_cpu_waiting_seconds_total pressure_io_stalled_seconds_total
  pressure_io_waiting_seconds_total pressure_memory_stalled_seconds_total pressure_memory_waiting_seconds_total`;
const namesIn = (text: string): readonly string[] =>
  text
    .trim()
    .split(/\s+/)
    .map((name) => `container_${name}`);

const withSource = (source: Pick<StatsSource, "readPods">): TestShim["services"] => ({
  ...shim.services,
  stats: { ...shim.services.stats, source: () => source as StatsSource },
});

/** What `work` makes of a pod with one container, whose statistics are read from the recorded files. */
async function withRecordedPod<Result>(
  version: "v1" | "v2",
  work: (pod: { services: TestShim["services"]; sandbox: string; container: string }) => Promise<Result>,
): Promise<Result> {
  await using files = await layOut(version);
  const sandbox = await shim.runSandbox();
  const container = await shim.runContainer(sandbox);
  const read = (ofPod: boolean): ResourceReading => {
    const reading = readOnce(files, { details: true, ofPod });
    assert.ok(reading.details);
    const processes = { processes: 4, fileDescriptors: 9, sockets: 1, openFilesLimit: 1024 };
    return { ...reading, details: { ...reading.details, processes } };
  };
  const stats: Pick<StatsSource, "readPods"> = {
    readPods: (pods, { details }) => {
      assert.equal(details, true);
      const found = pods.map(({ containers }) => containers.map(({ id }) => id));
      assert.deepEqual(found, [[container]]);
      const reading = {
        resources: read(true),
        interfaces: parseInterfaces(files.golden.netDev),
        containers: new Map([[container, read(false)]]),
      };
      return Readable.from([[sandbox, reading] as const]);
    },
  };
  const services = withSource(stats);
  return await work({ services, sandbox, container });
}

function recordedMetrics(version: "v1" | "v2") {
  return withRecordedPod(version, async ({ services, sandbox, container }) => {
    const [only, ...others] = await collect(listPodSandboxMetrics({}, services, shim.call()));
    assert.ok(only !== undefined && others.length === 0);
    assert.equal(only.pod_sandbox_id, sandbox);
    const [own] = only.container_metrics ?? [];
    assert.equal(own?.container_id, container);
    return { pod: only.metrics ?? [], container: own.metrics ?? [] };
  });
}

describe("metrics", () => {
  test("are described, all of critest's and no other, with help and labels", async () => {
    const { descriptors = [] } = await listMetricDescriptors();
    const found = descriptors.map(({ name }) => name).sort();
    assert.deepEqual(found, [...namesIn(required), ...namesIn(optional)].sort());
    for (const { name, help, label_keys } of descriptors) {
      assert.ok((help ?? "") !== "", name);
      assert.ok((label_keys ?? []).length >= 6, name);
    }
  });

  for (const version of ["v1", "v2"] as const) {
    test(`have a sample of each required name with ${version}, and a value for each label`, async () => {
      const { pod, container } = await recordedMetrics(version);
      const { descriptors = [] } = await listMetricDescriptors();
      const labels = new Map(descriptors.map(({ name, label_keys }) => [name, label_keys ?? []]));
      const seen = new Set<string>();
      const series = new Set<string>();
      for (const { name = "", label_values = [], timestamp, value } of [...pod, ...container]) {
        seen.add(name);
        assert.equal(label_values.length, labels.get(name)?.length, name);
        assert.ok(BigInt(timestamp ?? "0") > 0n, name);
        assert.match(value?.value ?? "", /^\d+$/, name);
        const key = `${name} ${label_values.join("|")}`;
        assert.ok(!series.has(key), `twice: ${key}`);
        series.add(key);
      }
      const found = namesIn(required).filter((name) => !seen.has(name));
      assert.deepEqual(found, []);
    });
  }

  test("carry the figures of the recorded files, and the labels of cAdvisor", async () => {
    const { pod, container } = await recordedMetrics("v2");
    const of = (metrics: readonly Answer<Metric>[], name: string): readonly (string | undefined)[] =>
      metrics.filter((metric) => metric.name === `container_${name}`).map(({ value }) => value?.value);
    for (const [name, ...values] of [
      ["cpu_usage_seconds_total", "5"],
      ["cpu_cfs_throttled_seconds_total", "17"],
      ["memory_working_set_bytes", "8843264"],
      ["memory_failures_total", "1217", "0", "1217", "0"],
      ["threads_max", "100"],
      ["hugetlb_usage_bytes", "0", "0"],
      ["pressure_cpu_waiting_seconds_total", "14"],
      ["ulimits_soft", "1024"],
    ] as const)
      assert.deepEqual(of(container, name), values, name);
    assert.deepEqual(of(pod, "network_receive_bytes_total"), ["1182"]);
    assert.deepEqual(of(pod, "memory_usage_bytes"), ["9187328"]);
    const labels = (metrics: readonly Answer<Metric>[], name: string): unknown =>
      metrics.find((metric) => metric.name === name)?.label_values;
    assert.deepEqual(labels(container, "container_memory_rss"), [
      `/kubepods/pod1/${"c0".padEnd(64, "0")}`,
      "k8s_main_web_default_uid-1_0",
      "docker.io/library/busybox:latest",
      ...["main", "web", "default"],
    ]);
    assert.deepEqual(labels(pod, "container_memory_rss"), ["/kubepods/pod1", "", "", "", "web", "default"]);
  });
});

describe("metricsPage()", () => {
  test("is what Prometheus reads: each metric of the CRI, by the same labels, with fractions of seconds", async () => {
    const { page, answered } = await withRecordedPod("v2", async ({ services }) => ({
      page: parsePrometheusText(await metricsPage(services, shim.call().signal)),
      answered: await collect(listPodSandboxMetrics({}, services, shim.call())),
    }));
    const { descriptors = [] } = await listMetricDescriptors();
    const keysOf = new Map(descriptors.map(({ name, label_keys }) => [name, label_keys ?? []]));
    const labels = { pod: "web", namespace: "default", container: "main" };
    const metrics = answered.flatMap((pod) => [
      ...(pod.metrics ?? []),
      ...(pod.container_metrics ?? []).flatMap((one) => one.metrics ?? []),
    ]);
    assert.equal(page.samples.length, metrics.length);
    for (const { name = "", label_values = [], value } of metrics) {
      if (name === "container_last_seen") continue;
      const keys = keysOf.get(name) ?? [];
      const found = page.value(
        name,
        Object.fromEntries(keys.map((key, index) => [key, label_values[index] ?? ""])),
      );
      assert.equal(String(Math.trunc(found ?? NaN)), value?.value, name);
    }
    assert.equal(page.value("container_cpu_usage_seconds_total", { ...labels, cpu: "total" }), 5.26329);
    assert.equal(page.types.get("container_cpu_usage_seconds_total"), "counter");
    assert.equal(page.types.get("container_memory_working_set_bytes"), "gauge");
  });

  test("is an empty page without pods", async () => {
    assert.equal(await metricsPage(shim.services, shim.call().signal), "");
  });

  test("writes what a tenant has in labels as text", async () => {
    await shim.runSandbox(runRequest({ metadata: podMetadata('a"\\\n') }));
    const reading = {
      resources: undefined,
      interfaces: parseInterfaces("eth0: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n"),
      containers: new Map(),
    };
    const stats: Pick<StatsSource, "readPods"> = {
      readPods: ([pod]) => Readable.from([[pod?.sandbox.id ?? "", reading] as const]),
    };
    const services = withSource(stats);
    const { samples } = parsePrometheusText(await metricsPage(services, shim.call().signal));
    assert.equal(samples[0]?.labels["pod"], 'a\\"\\\\\\n');
  });
});

test("takeSamples() gives the CRI whole numbers, whatever was read", () => {
  const labels = { id: "/a", name: "", image: "", container: "", pod: "", namespace: "" };
  const samples = (): readonly Sample[] => [1.9, -1, NaN, Infinity, 1e21].map((value) => ({ value }));
  const definition = { name: "odd", help: "", type: MetricType.GAUGE, samples };
  const metrics = takeSamples([definition], undefined, labels, 1n, criSample);
  const found = metrics.map(({ value }) => value?.value);
  assert.deepEqual(found, ["1", "0", "0", "9007199254740991", "9007199254740991"]);
});
