import type { Call } from "../base/call.js";
import type {
  Answer,
  ListPodSandboxStatsRequest,
  ListPodSandboxStatsResponse,
  PodSandboxStats,
} from "../domain/cri.js";
import { matchesId, matchesLabels } from "../domain/filter.js";
import type { Sandbox } from "../domain/sandbox.js";
import { runningPods } from "./pod-parts.js";
import type { Services } from "./services.js";
import { containerStatsItem, podSandboxStatsItem } from "./stats-items.js";

/** Of ready sandboxes. One that stops meanwhile or cannot be read is left out. Filters as in ListPodSandbox. */
export async function listPodSandboxStats(
  { filter }: ListPodSandboxStatsRequest,
  services: Pick<Services, "link" | "model" | "stats" | "layers" | "host">,
  call: Call,
): Promise<Answer<ListPodSandboxStatsResponse>> {
  const wanted: Sandbox[] = [];
  await services.link.live(call.signal);
  const near = filter === null ? undefined : { id: filter.id, labels: filter.label_selector };
  for (const sandbox of services.model.sandboxes(near)) {
    if (filter !== null) {
      if (!matchesId(sandbox.id, filter.id)) continue;
      if (!matchesLabels(sandbox.snapshot.labels, filter.label_selector)) continue;
    }
    wanted.push(sandbox);
  }
  return { stats: await statsOfPods(wanted, services, call.signal) };
}

/** Of those that are ready, without those that stop meanwhile. */
export async function statsOfPods(
  sandboxes: readonly Sandbox[],
  { link, model, stats, layers, host }: Pick<Services, "link" | "model" | "stats" | "layers" | "host">,
  signal: AbortSignal,
): Promise<readonly Answer<PodSandboxStats>[]> {
  const mountpoint = await host().imageDirectory(await link.live(signal));
  const pods = runningPods(sandboxes, model);
  const readings = await stats().readPods(pods, { details: false }, signal);
  return pods.flatMap(({ pod, running }) => {
    const reading = readings.get(pod.id);
    if (reading === undefined) return [];
    const containers = running.flatMap((container) => {
      const { id } = container;
      const own = reading.containers.get(id);
      return own === undefined ? [] : [containerStatsItem(container, own, layers.usageOf(id), mountpoint)];
    });
    return [podSandboxStatsItem(pod, reading, containers)];
  });
}
