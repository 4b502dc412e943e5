/** The metrics of pods and containers, by cAdvisor's names and labels, in the form that the caller makes. */
import { posix } from "node:path";
import { collect } from "../../../lib/streams.js";
import { nowNanoseconds } from "../../../lib/time.js";
import type { Container } from "../../../domain/container.js";
import type { ResourceReading } from "../../../domain/resource-reading.js";
import type { FileSystemUsage } from "../../ports/host.js";
import type { PodReading } from "../../ports/stats.js";
import type { Services } from "../services.js";
import { containerMetrics } from "./metrics/container-metrics.js";
import { type CommonLabels, type MakeSample, takeSamples } from "./metrics/metric.js";
import { networkMetrics, resourceMetrics } from "./metrics/resource-metrics.js";
import { type RunningPod, runningPods } from "./pod-parts.js";

export type MetricsServices = Pick<Services, "images" | "node" | "state" | "stats">;

export interface PodSamples<Made> {
  readonly podId: string;
  /** Sample of the whole pod. */
  readonly samples: readonly Made[];
  readonly containers: readonly { readonly id: string; readonly samples: readonly Made[] }[];
}

/** Samples of ready pods and their running containers that can be read, each made when the caller takes it. */
export async function* podSamples<Made>(
  services: MetricsServices,
  make: MakeSample<Made>,
  signal: AbortSignal,
): AsyncGenerator<PodSamples<Made>> {
  const {
    images,
    node: { host },
    state: { link, model },
    stats: { source: stats, layers },
  } = services;
  const directory = await host().imageDirectory(await link.live(signal));
  const fileSystem = await host().fileSystemUsage(directory);
  const pods = runningPods([...model.sandboxes()], model);
  const byId = new Map(pods.map((parts) => [parts.pod.id, parts]));
  const context: Context<Made> = { layers, fileSystem, names: images.names, make };
  // All readings come first: to read and encode in turns takes a sixth longer here.
  for (const [id, reading] of await collect(stats().readPods(pods, { details: true }, signal))) {
    const parts = byId.get(id);
    if (parts !== undefined) yield samplesOfPod(parts, reading, context);
  }
}

interface Context<Made> {
  readonly layers: Services["stats"]["layers"];
  readonly fileSystem: FileSystemUsage | undefined;
  readonly names: Pick<Services["images"]["names"], "nameOf">;
  readonly make: MakeSample<Made>;
}

function samplesOfPod<Made>(
  { pod, running }: RunningPod,
  reading: PodReading,
  context: Context<Made>,
): PodSamples<Made> {
  return {
    podId: pod.id,
    samples: [
      ...samplesOfCgroup(pod, reading.resources, context),
      ...samplesOfNetwork(pod, reading, context),
    ],
    containers: running.flatMap((container) => {
      const own = reading.containers.get(container.id);
      if (own === undefined) return [];
      return [{ id: container.id, samples: samplesOfContainer(pod, container, own, context) }];
    }),
  };
}

function samplesOfContainer<Made>(
  pod: RunningPod["pod"],
  { id, identity, snapshot }: Container,
  reading: ResourceReading,
  { layers, fileSystem, names, make }: Context<Made>,
): readonly Made[] {
  const labels: CommonLabels = {
    ...podLabels(pod),
    id: cgroupPathOf(reading) ?? id,
    name: snapshot.name,
    image: names.nameOf(snapshot),
    container: identity.name,
  };
  const subject = { snapshot, reading, layer: layers.usageOf(id), fileSystem };
  return [
    ...takeSamples(resourceMetrics, reading, labels, reading.timestamp, make),
    ...takeSamples(containerMetrics, subject, labels, reading.timestamp, make),
  ];
}

/** Like cAdvisor's metrics of a pod's cgroup: without image and name. None for a pod without its own cgroup. */
function samplesOfCgroup<Made>(
  pod: RunningPod["pod"],
  reading: ResourceReading | undefined,
  { make }: Context<Made>,
): readonly Made[] {
  const id = reading === undefined ? undefined : cgroupPathOf(reading);
  if (reading === undefined || id === undefined) return [];
  const labels: CommonLabels = { ...podLabels(pod), id, name: "", image: "", container: "" };
  return takeSamples(resourceMetrics, reading, labels, reading.timestamp, make);
}

/** Has the name of the pause container, whose network namespace it is. */
function samplesOfNetwork<Made>(
  pod: RunningPod["pod"],
  { interfaces }: PodReading,
  { names, make }: Context<Made>,
): readonly Made[] {
  if (interfaces === undefined) return [];
  const { id, snapshot } = pod;
  const image = names.nameOf(snapshot);
  const labels: CommonLabels = { ...podLabels(pod), id, name: snapshot.name, image, container: "" };
  return takeSamples(networkMetrics, interfaces, labels, nowNanoseconds(), make);
}

function podLabels({ pod }: RunningPod["pod"]): Pick<CommonLabels, "pod" | "namespace"> {
  return { pod: pod.name, namespace: pod.namespace };
}

function cgroupPathOf({ details }: ResourceReading): string | undefined {
  return details === undefined || details.cgroupPath === "" ? undefined : posix.normalize(details.cgroupPath);
}
