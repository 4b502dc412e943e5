import type { Call } from "../../../lib/call.js";
import type { Answer, ListMetricDescriptorsResponse, PodSandboxMetrics } from "../../../domain/cri.js";
import { containerMetrics } from "./metrics/container-metrics.js";
import { criSample, describe } from "./metrics/metric.js";
import { networkMetrics, resourceMetrics } from "./metrics/resource-metrics.js";
import { type MetricsServices, podSamples } from "./pod-samples.js";

/**
 * ListPodSandboxMetrics and StreamPodSandboxMetrics. Each pod has more than a hundred metrics. An item is made
 * when the caller takes it, so that the metrics of one pod are in memory.
 */
export async function* listPodSandboxMetrics(
  _request: unknown,
  services: MetricsServices,
  call: Call,
): AsyncGenerator<Answer<PodSandboxMetrics>> {
  for await (const { podId, samples, containers } of podSamples(services, criSample, call.signal)) {
    yield {
      pod_sandbox_id: podId,
      metrics: samples,
      container_metrics: containers.map(({ id, samples: metrics }) => ({ container_id: id, metrics })),
    };
  }
}

/** All metrics that ListPodSandboxMetrics may answer. Kubelets ask once, at their start. */
export function listMetricDescriptors(): Promise<Answer<ListMetricDescriptorsResponse>> {
  return Promise.resolve({
    descriptors: [
      ...resourceMetrics.map(describe),
      ...containerMetrics.map(describe),
      ...networkMetrics.map(describe),
    ],
  });
}
