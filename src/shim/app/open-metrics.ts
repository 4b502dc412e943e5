/** Metrics and health; off unless an address is given. */
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import type { Config } from "../config/resolve.js";
import { MetricsRegistry } from "../metrics/metrics-registry.js";
import {
  type Condition,
  healthPage,
  type MetricsServer,
  type Page,
  readinessPage,
  startMetricsServer,
} from "../metrics/metrics-server.js";
import { RecentCalls } from "../page/recent-calls.js";
import type { EndedCallSubscriber } from "../ports/ended-calls.js";
import type { Observer } from "../ports/observer.js";
import { browserPages } from "../page/browser-pages.js";
import type { PageSources } from "../page/page-sources.js";
import { presentMetrics, type PresentState } from "../metrics/present-metrics.js";

export interface MetricsSources {
  readonly readConditions: (signal: AbortSignal) => Promise<readonly Condition[]>;
  /** In the text format of Prometheus. */
  readonly containerMetrics: (signal: AbortSignal) => Promise<string>;
  readonly page: Omit<PageSources, "recent">;
}

export interface OpenMetrics {
  readonly observer: Observer;
  /** Hear of ended calls for the page for people. */
  readonly subscribers: readonly EndedCallSubscriber[];
  /** Listens when it returns; the errors are those of `startMetricsServer`. */
  serve(state: PresentState, sources: MetricsSources): Promise<MetricsServer>;
}

/** Undefined when metrics are off: then nothing is loaded, counted or served. */
export async function openMetrics(
  {
    metricsBindAddress: address,
    metricsContainers,
    metricsPage: hasBrowserPages,
  }: Pick<Config, "metricsBindAddress" | "metricsContainers" | "metricsPage">,
  log: Logger,
  lifetime: Lifetime,
): Promise<OpenMetrics | undefined> {
  if (address === undefined) return undefined;
  const registry = await MetricsRegistry.create(log, { processMetrics: true });
  const recent = hasBrowserPages ? new RecentCalls(() => Date.now()) : undefined;
  const metricsPage = async (): Promise<Page> => ({ status: 200, ...(await registry.text()) });
  return {
    observer: registry.observer,
    subscribers: recent === undefined ? [] : [recent],
    serve: async (state, { readConditions, containerMetrics, page }) => {
      registry.add(presentMetrics(state));
      const server = await startMetricsServer({
        address,
        pages: {
          "/metrics": metricsPage,
          ...(metricsContainers
            ? {
                "/metrics/containers": async (signal) => ({
                  status: 200,
                  contentType: "text/plain; version=0.0.4; charset=utf-8",
                  body: await containerMetrics(signal),
                }),
              }
            : {}),
          "/healthz": () => Promise.resolve(healthPage),
          "/readyz": async (signal) => readinessPage(await readConditions(signal)),
          ...(recent === undefined ? {} : browserPages({ ...page, recent })),
        },
        log,
      });
      lifetime.onClose("server of metrics", () => server.close());
      log.info({ endpoint: server.endpoint }, "serving metrics");
      return server;
    },
  };
}
