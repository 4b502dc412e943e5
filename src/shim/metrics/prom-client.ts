/** The parts of prom-client that are used, to be imported late; lib/yaml.ts has the reason. */
export { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
