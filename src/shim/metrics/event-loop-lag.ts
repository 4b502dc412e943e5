/**
 * The lag of the event loop since the last scrape, under prom-client's names. prom-client measures it by a timer of
 * 10 ms, which wakes a server a hundred times a second that has nothing to do.
 */
import { type EventLoopMonitorOptions, type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import type { PresentMetric } from "./present-metric.js";

/** Node.js knows how long turns of the event loop take. Before 24 it does not, and prom-client measures. */
export const knowsTurns = Number.parseInt(process.versions.node) >= 24;

/** For prom-client's own: no process lives until its timer fires. */
export const withoutTimer = { eventLoopMonitoringPrecision: 2 ** 31 - 1 };

const options: EventLoopMonitorOptions & { readonly samplePerIteration: boolean } = {
  samplePerIteration: true,
};

/** In nanoseconds. */
const summaries: readonly (readonly [name: string, read: (lag: IntervalHistogram) => number])[] = [
  ["min", ({ min }) => min],
  ["max", ({ max }) => max],
  ["mean", ({ mean }) => mean],
  ["stddev", ({ stddev }) => stddev],
  ["p50", (lag) => lag.percentile(50)],
  ["p90", (lag) => lag.percentile(90)],
  ["p99", (lag) => lag.percentile(99)],
];

/** Measures until the process ends. */
export function eventLoopLag(): readonly PresentMetric[] {
  const lag = monitorEventLoopDelay(options);
  lag.enable();
  return summaries.map(([name, read], index) => ({
    name: `nodejs_eventloop_lag_${name}_seconds`,
    help: `How long turns of the event loop took since the last scrape (${name}): what others waited for.`,
    type: "gauge",
    read: () => {
      const values = lag.count === 0 ? [] : [{ value: read(lag) / 1e9 }];
      if (index === summaries.length - 1) lag.reset();
      return values;
    },
  }));
}
