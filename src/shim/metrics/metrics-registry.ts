/** All metrics, and their text. prom-client is loaded here, only when the endpoint is on. */
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Observer } from "../ports/observer.js";
import { eventLoopLag, knowsTurns, withoutTimer } from "./event-loop-lag.js";
import { createOperationMetrics } from "./operation-metrics.js";
import type { PresentMetric } from "./present-metric.js";
import type * as prometheusClient from "./prom-client.js";
import type { Counter, Gauge, Registry } from "./prom-client.js";

type PromClient = typeof prometheusClient;

export interface MetricsText {
  readonly contentType: string;
  readonly body: string;
}

/** What a metric is, for documentation and tests. */
export interface MetricFacts {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
  readonly help: string;
}

export class MetricsRegistry {
  private constructor(
    private readonly prometheus: PromClient,
    private readonly registry: Registry,
    /** Counts into this registry. */
    readonly observer: Observer,
    private readonly log: Pick<Logger, "error">,
  ) {}

  /** `processMetrics`: also those of the process and of Node.js, which measure until the process ends. */
  static async create(
    log: Pick<Logger, "error">,
    { processMetrics }: { readonly processMetrics: boolean },
  ): Promise<MetricsRegistry> {
    const prometheus = await import("./prom-client.js");
    const registry = new prometheus.Registry();
    const observer = createOperationMetrics(prometheus, registry);
    const metrics = new MetricsRegistry(prometheus, registry, observer, log);
    if (processMetrics && !knowsTurns) prometheus.collectDefaultMetrics({ register: registry });
    else if (processMetrics) {
      prometheus.collectDefaultMetrics({ register: registry, ...withoutTimer });
      const lag = eventLoopLag();
      for (const { name } of lag) registry.removeSingleMetric(name);
      metrics.add(lag);
    }
    return metrics;
  }

  /** Adds metrics that are read at each `text`. */
  add(metrics: readonly PresentMetric[]): void {
    for (const { name, help, type, labels = [], read } of metrics) {
      const collectInto = (target: Gauge | Counter): void => {
        target.reset();
        // One without labels is 0 after a reset, and what is not known is not 0.
        if (labels.length === 0) target.remove();
        let values: ReturnType<typeof read>;
        try {
          values = read();
        } catch (error) {
          this.log.error({ metric: name, err: messageOf(error) }, "cannot read a metric");
          return;
        }
        for (const { labels: given = [], value } of values) {
          target.inc(Object.fromEntries(labels.map((label, index) => [label, given[index] ?? ""])), value);
        }
      };
      const definition = {
        name,
        help,
        labelNames: labels,
        registers: [this.registry],
        collect(this: Gauge | Counter) {
          collectInto(this);
        },
      };
      if (type === "counter") new this.prometheus.Counter(definition);
      else new this.prometheus.Gauge(definition);
    }
  }

  /** In the text format of Prometheus, 0.0.4. */
  async text(): Promise<MetricsText> {
    return { contentType: this.registry.contentType, body: await this.registry.metrics() };
  }

  facts(): readonly MetricFacts[] {
    return this.registry.getMetricsAsArray().map((metric) => {
      // The declaration of prom-client leaves out the names of the labels.
      const { name, type, help, labelNames } = metric as unknown as {
        readonly name: string;
        readonly type: string;
        readonly help: string;
        readonly labelNames: readonly string[];
      };
      return { name, type, help, labels: labelNames };
    });
  }
}
