/**
 * What is used of the package prom-client, to be imported when it is needed; see base/yaml.ts for why it
 * stands here.
 */
export { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
