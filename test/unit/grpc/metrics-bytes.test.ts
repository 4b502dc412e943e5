import assert from "node:assert/strict";
import { test } from "node:test";
import { loadSync, type MessageTypeDefinition } from "@grpc/proto-loader";
import fc from "fast-check";
import { MetricType, type PodSandboxMetrics } from "../../../src/shim/domain/cri.js";
import { metricsEncoder } from "../../../src/shim/grpc/metrics-bytes.js";

const file = new URL("../../../proto/runtime/v1/api.proto", import.meta.url).pathname;
const types = loadSync(file, { keepCase: true, longs: String, defaults: true });
const type = types["runtime.v1.PodSandboxMetrics"] as MessageTypeDefinition<PodSandboxMetrics, object>;

const largest = 2n ** 64n - 1n;
const labels = fc.array(fc.string({ unit: "grapheme" }), { maxLength: 3 });
const metric = fc.record({
  name: fc.constantFrom("", "container_cpu", "ü".repeat(70)),
  timestamp: fc.bigInt(0n, 2n ** 63n - 1n).map(String),
  metric_type: fc.constantFrom(0, 1),
  label_values: labels,
  value: fc.option(
    fc.record({
      value: fc
        .oneof(fc.constantFrom(0n, 127n, 128n, 2n ** 53n + 1n, largest), fc.bigInt(0n, largest))
        .map(String),
    }),
  ),
});
const metrics = fc.array(metric, { maxLength: 5 });
const message = fc.record({
  pod_sandbox_id: fc.string(),
  metrics,
  container_metrics: fc.array(fc.record({ container_id: fc.string(), metrics }), { maxLength: 3 }),
});

test("metricsEncoder() says what the encoder of gRPC says", () => {
  const encode = metricsEncoder();
  fc.assert(
    fc.property(message, (given) => {
      assert.deepEqual(type.deserialize(encode(given)), type.deserialize(type.serialize(given)));
    }),
    { numRuns: 500 },
  );
});

test("metricsEncoder() tells subjects apart that share names, and metrics that share labels", () => {
  const encode = metricsEncoder();
  const shared = ["id", "name"];
  const of = (timestamp: string, label_values: readonly string[], value: string) => ({
    ...{ name: "m", timestamp, metric_type: MetricType.GAUGE, label_values },
    value: { value },
  });
  const given = (pod: string): PodSandboxMetrics => ({
    pod_sandbox_id: pod,
    metrics: [of("1", shared, "1"), of("1", [...shared, "sda"], "2"), of("2", shared, "3")],
    container_metrics: [
      { container_id: `${pod}-c`, metrics: [of("2", [`${pod}-c`], "4"), of("1", shared, "5")] },
    ],
  });
  for (const pod of ["a", "b"]) assert.deepEqual(type.deserialize(encode(given(pod))), given(pod));
});
