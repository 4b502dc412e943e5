import assert from "node:assert/strict";
import { createRequire } from "node:module";
import type * as perfHooks from "node:perf_hooks";
import { describe, test } from "node:test";
import { MetricsRegistry } from "../../../src/shim/metrics/metrics-registry.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { parsePrometheusText } from "../../support/prometheus-text.js";

describe("the lag of the event loop", () => {
  // What prom-client gets from `require`.
  const hooks = createRequire(import.meta.url)("node:perf_hooks") as typeof perfHooks;

  const { node } = process.versions;
  const skip = Number.parseInt(node) < 24 && `prom-client measures with Node.js ${node}`;

  test("no timer wakes a server that has nothing to do", { skip }, async ({ mock }) => {
    const monitor = mock.method(hooks, "monitorEventLoopDelay");
    await MetricsRegistry.create(recordingLog(), { processMetrics: true });
    const resolutions = monitor.mock.calls.map(({ arguments: [options] }) => options?.resolution ?? 10);
    assert.ok(resolutions.length > 0, "prom-client asks for a monitor no more");
    assert.ok(Math.min(...resolutions) > 24 * 60 * 60 * 1000, `a timer of ${resolutions.join(", ")} ms`);
  });

  test("is how long a turn took since the last scrape", { skip }, async () => {
    const registry = await MetricsRegistry.create(recordingLog(), { processMetrics: true });
    const longestTurns = async (): Promise<readonly number[]> =>
      parsePrometheusText((await registry.text()).body)
        .samples.filter(({ name }) => name === "nodejs_eventloop_lag_max_seconds")
        .map(({ value }) => value);
    await turn();
    const blockedMs = 30;
    for (const begin = performance.now(); performance.now() - begin < blockedMs;);
    await turn();
    // Two scrapes in one turn.
    const [[longest = 0], since] = await Promise.all([longestTurns(), longestTurns()]);
    assert.ok(longest >= blockedMs / 1000, `${String(longest)} s`);
    assert.deepEqual(since, []);
  });
});

function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}
