import { posix } from "node:path";
import type { Call } from "../../lib/call.js";
import { collect } from "../../lib/streams.js";
import type { Container } from "../../domain/container.js";
import type { Answer, Metric, PodSandboxMetrics, ListMetricDescriptorsResponse } from "../../domain/cri.js";
import type { ResourceReading } from "../../domain/resource-reading.js";
import type { FileSystemUsage } from "../../ports/host.js";
import type { PodReading } from "../../ports/stats.js";
import { containerMetrics } from "./metrics/container-metrics.js";
import { type CommonLabels, takeSamples, describe } from "./metrics/metric.js";
import { networkMetrics, resourceMetrics } from "./metrics/resource-metrics.js";
import { type RunningPod, runningPods } from "./pod-parts.js";
import type { Services } from "../services.js";
import { nowNanoseconds } from "../../lib/time.js";

/**
 * ListPodSandboxMetrics and StreamPodSandboxMetrics, of ready pods and their running containers that can be
 * read. Each pod has more than a hundred metrics. An item is made when the caller takes it, so that the
 * metrics of one pod are in memory.
 */
export async function* listPodSandboxMetrics(
  _request: unknown,
  { state: { link, model }, stats: { source: stats, layers }, node: { host } }: Services,
  call: Call,
): AsyncGenerator<Answer<PodSandboxMetrics>> {
  const directory = await host().imageDirectory(await link.live(call.signal));
  const fileSystem = await host().fileSystemUsage(directory);
  const pods = runningPods([...model.sandboxes()], model);
  const byId = new Map(pods.map((parts) => [parts.pod.id, parts]));
  // All readings come first: to read and encode in turns takes a sixth longer here.
  for (const [id, reading] of await collect(stats().readPods(pods, { details: true }, call.signal))) {
    const parts = byId.get(id);
    if (parts !== undefined) yield metricsOfPod(parts, reading, { layers, fileSystem });
  }
}

interface Disk extends Pick<Services["stats"], "layers"> {
  readonly fileSystem: FileSystemUsage | undefined;
}

function metricsOfPod(
  { pod, running }: RunningPod,
  reading: PodReading,
  disk: Disk,
): Answer<PodSandboxMetrics> {
  return {
    pod_sandbox_id: pod.id,
    metrics: [...podResources(pod, reading.resources), ...podNetwork(pod, reading)],
    container_metrics: running.flatMap((container) => {
      const own = reading.containers.get(container.id);
      if (own === undefined) return [];
      return [{ container_id: container.id, metrics: metricsOfContainer(pod, container, own, disk) }];
    }),
  };
}

function metricsOfContainer(
  pod: RunningPod["pod"],
  { id, identity, snapshot }: Container,
  reading: ResourceReading,
  { layers, fileSystem }: Disk,
): readonly Answer<Metric>[] {
  const labels: CommonLabels = {
    ...podLabels(pod),
    id: cgroupPathOf(reading) ?? id,
    name: snapshot.name,
    image: snapshot.imageName,
    container: identity.name,
  };
  const subject = { snapshot, reading, layer: layers.usageOf(id), fileSystem };
  return [
    ...takeSamples(resourceMetrics, reading, labels, reading.timestamp),
    ...takeSamples(containerMetrics, subject, labels, reading.timestamp),
  ];
}

/**
 * Like cAdvisor's metrics of a pod's cgroup: without image and name. None for a pod without its own cgroup.
 */
function podResources(
  pod: RunningPod["pod"],
  reading: ResourceReading | undefined,
): readonly Answer<Metric>[] {
  const id = reading === undefined ? undefined : cgroupPathOf(reading);
  if (reading === undefined || id === undefined) return [];
  const labels: CommonLabels = { ...podLabels(pod), id, name: "", image: "", container: "" };
  return takeSamples(resourceMetrics, reading, labels, reading.timestamp);
}

/** Has the name of the pause container, whose network namespace it is. */
function podNetwork(pod: RunningPod["pod"], { interfaces }: PodReading): readonly Answer<Metric>[] {
  if (interfaces === undefined) return [];
  const { name, imageName: image } = pod.snapshot;
  const labels: CommonLabels = { ...podLabels(pod), id: pod.id, name, image, container: "" };
  return takeSamples(networkMetrics, interfaces, labels, nowNanoseconds());
}

function podLabels({ pod }: RunningPod["pod"]): Pick<CommonLabels, "pod" | "namespace"> {
  return { pod: pod.name, namespace: pod.namespace };
}

function cgroupPathOf({ details }: ResourceReading): string | undefined {
  return details === undefined || details.cgroupPath === "" ? undefined : posix.normalize(details.cgroupPath);
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
