import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { MetricsRegistry } from "../../../src/shim/metrics/metrics-registry.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { parsePrometheusText, type Scrape } from "../../support/prometheus-text.js";
import { pluck } from "../../support/pluck.js";

async function create(): Promise<{ registry: MetricsRegistry; scrape: () => Promise<Scrape> }> {
  const registry = await MetricsRegistry.create(recordingLog(), { processMetrics: false });
  return { registry, scrape: async () => parsePrometheusText((await registry.text()).body) };
}

const dockershimBuckets = "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf".split(" ");

describe("metrics of operations", () => {
  test("count engine calls, failures and timeouts apart, in dockershim's buckets", async () => {
    const { registry, scrape } = await create();
    const { observer } = registry;
    observer.engineCallEnded({ verb: "inspectContainer", ms: 30 });
    observer.engineCallEnded({ verb: "inspectContainer", ms: 2000, kind: "unavailable" });
    observer.engineCallEnded({ verb: "inspectContainer", ms: 120_000, kind: "timeout" });
    const found = await scrape();
    const labels = { operation_type: "inspect_container" };
    assert.equal(found.value("kubelet_docker_operations_total", labels), 3);
    assert.equal(found.value("kubelet_docker_operations_errors_total", labels), 2);
    assert.equal(found.value("kubelet_docker_operations_timeout_total", labels), 1);
    const buckets = found.samples.filter(
      ({ name, labels: { operation_type } }) =>
        name === "kubelet_docker_operations_duration_seconds_bucket" &&
        operation_type === "inspect_container",
    );
    const bounds = buckets.map(({ labels: { le } }) => le);
    assert.deepEqual(bounds, dockershimBuckets);
    assert.deepEqual(pluck(buckets, "value"), [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3]);
    assert.equal(found.value("kubelet_docker_operations_duration_seconds_sum", labels), 122.03);
  });

  test("name engine calls as dockershim did", async () => {
    const { registry, scrape } = await create();
    const names = {
      connect: "info",
      containerStats: "stats",
      containerLogs: "logs",
      attachContainer: "attach",
      writableLayerBytes: "inspect_container_withsize",
      imageDiskUsage: "disk_usage",
      ping: "ping",
      pullImage: "pull_image",
      readContainerFile: "read_container_file",
    } as const;
    const verbs = Object.keys(names) as (keyof typeof names)[];
    for (const verb of verbs) registry.observer.engineCallEnded({ verb, ms: 1 });
    const found = await scrape();
    for (const verb of verbs)
      assert.equal(found.value("kubelet_docker_operations_total", { operation_type: names[verb] }), 1, verb);
  });

  test("count a connection of events without a time", async () => {
    const { registry, scrape } = await create();
    registry.observer.engineCallEnded({ verb: "events", ms: 86_400_000, kind: "unavailable" });
    const found = await scrape();
    const labels = { operation_type: "events" };
    assert.equal(found.value("kubelet_docker_operations_errors_total", labels), 1);
    assert.equal(found.value("kubelet_docker_operations_duration_seconds_count", labels), undefined);
  });

  test("count calls of the CRI by code, and the time of those that end by themselves", async () => {
    const { registry, scrape } = await create();
    registry.observer.rpcEnded({ rpc: "ListContainers", code: "OK", ms: 0.4 });
    registry.observer.rpcEnded({ rpc: "ListContainers", code: "UNAVAILABLE", ms: 5000 });
    registry.observer.rpcEnded({ rpc: "GetContainerEvents", code: "CANCELLED", ms: 3_600_000 });
    const found = await scrape();
    const total = "dockershim_cri_requests_total";
    assert.equal(found.value(total, { rpc: "ListContainers", code: "OK" }), 1);
    assert.equal(found.value(total, { rpc: "ListContainers", code: "UNAVAILABLE" }), 1);
    assert.equal(found.value(total, { rpc: "GetContainerEvents" }), 1);
    const seconds = "dockershim_cri_requests_duration_seconds";
    assert.equal(found.value(`${seconds}_bucket`, { rpc: "ListContainers", le: "0.0005" }), 1);
    assert.equal(found.value(`${seconds}_count`, { rpc: "ListContainers" }), 2);
    assert.equal(found.value(`${seconds}_count`, { rpc: "GetContainerEvents" }), undefined);
  });

  test("count network operations in dockershim's words, and runs of plugins", async () => {
    const { registry, scrape } = await create();
    const { observer } = registry;
    observer.networkOperationEnded({ operation: "setUpPod", ms: 300, failed: false });
    observer.networkOperationEnded({ operation: "tearDownPod", ms: 20, failed: true });
    observer.networkOperationEnded({ operation: "podAddresses", ms: 0, failed: false });
    observer.pluginRunEnded({ type: "bridge", command: "ADD", durationMs: 90, failed: true });
    const found = await scrape();
    const total = "kubelet_network_plugin_operations_total";
    for (const operation_type of ["set_up_pod", "tear_down_pod", "get_pod_network_status"])
      assert.equal(found.value(total, { operation_type }), 1, operation_type);
    const errors = "kubelet_network_plugin_operations_errors_total";
    assert.equal(found.value(errors, { operation_type: "tear_down_pod" }), 1);
    assert.equal(found.value(errors, { operation_type: "set_up_pod" }), undefined);
    const run = { plugin: "bridge", command: "ADD" };
    assert.equal(found.value("dockershim_cni_plugin_runs_errors_total", run), 1);
    assert.equal(found.value("dockershim_cni_plugin_runs_duration_seconds_sum", run), 0.09);
  });

  test("keep their text whole when a label has quotes and line ends in it", async () => {
    const { registry, scrape } = await create();
    registry.observer.pluginRunEnded({ type: 'a"b\\\n', command: "ADD", durationMs: 1, failed: false });
    assert.equal((await scrape()).value("dockershim_cni_plugin_runs_total", { plugin: 'a\\"b\\\\\\n' }), 1);
  });
});

describe("present metrics", () => {
  test("are read anew for each text; one that throws is left out and does not hide the others", async () => {
    const log = recordingLog();
    const registry = await MetricsRegistry.create(log, { processMetrics: false });
    let value = 1;
    registry.add([
      {
        name: "broken",
        help: "b",
        type: "gauge",
        read: () => {
          throw new Error("no");
        },
      },
      {
        name: "pods",
        help: "p",
        type: "gauge",
        labels: ["state"],
        read: () => [{ labels: ["ready"], value }],
      },
      { name: "found_total", help: "f", type: "counter", read: () => [{ value }] },
    ]);
    for (value of [7, 3]) {
      const found = parsePrometheusText((await registry.text()).body);
      assert.equal(found.value("pods", { state: "ready" }), value);
      assert.equal(found.value("found_total"), value);
      assert.equal(found.types.get("found_total"), "counter");
      assert.equal(found.value("broken"), undefined);
    }
    assert.deepEqual(
      log.lines.map(({ message, fields }) => [message, fields["metric"]]),
      Array.from({ length: 2 }, () => ["cannot read a metric", "broken"]),
    );
  });
});
