import type { Answer, ListMetricDescriptorsResponse } from "../../domain/cri.js";
import { containerMetrics } from "./metrics/container-metrics.js";
import { describe } from "./metrics/metric.js";
import { networkMetrics } from "./metrics/network-metrics.js";
import { resourceMetrics } from "./metrics/resource-metrics.js";

/** All that ListPodSandboxMetrics may answer. Kubelets ask once, when they start, so it does not depend on what runs. */
export function listMetricDescriptors(): Promise<Answer<ListMetricDescriptorsResponse>> {
  return Promise.resolve({
    descriptors: [
      ...resourceMetrics.map(describe),
      ...containerMetrics.map(describe),
      ...networkMetrics.map(describe),
    ],
  });
}
