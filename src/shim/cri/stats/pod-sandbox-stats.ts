import type { Call } from "../../../lib/call.js";
import { collect } from "../../../lib/streams.js";
import { ShimError } from "../../../lib/errors.js";
import type {
  Answer,
  ContainerStats,
  ListPodSandboxStatsRequest,
  StreamPodSandboxStatsRequest,
  PodSandboxStats,
} from "../../../domain/cri.js";
import { requireReadSandbox } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";
import { matchesId, matchesLabels } from "../../../domain/id-and-label-filters.js";
import type { Sandbox } from "../../../domain/sandbox.js";
import { runningPods } from "./pod-parts.js";
import { containerStatsItem, podSandboxStatsItem } from "./stats-items.js";

/** `precondition` for a sandbox that is not ready, `unavailable` when its statistics cannot be read. */
export const podSandboxStats: Handler<"PodSandboxStats"> = async ({ pod_sandbox_id }, services, call) => {
  await services.state.link.live(call.signal);
  const sandbox = await requireReadSandbox(pod_sandbox_id, services, call.signal);
  const { id } = sandbox;
  const [stats] = await collect(statsOfPods([sandbox], services, call.signal));
  if (stats !== undefined) return { stats };
  const action = `read the statistics of pod sandbox "${id}"`;
  // The sandbox may have stopped meanwhile.
  if (!sandbox.ready || services.state.model.sandbox(id)?.ready !== true)
    throw new ShimError("precondition", `${action}: it is not ready`, { sandboxId: id });
  const reason =
    services.stats.source().failureOf(id) ?? "its pause process has just ended or is being started";
  throw new ShimError("unavailable", `${action}: ${reason}`, { sandboxId: id });
};

/**
 * ListPodSandboxStats and StreamPodSandboxStats, of ready sandboxes. Each item is read when the caller takes
 * it, so that one pod's statistics are in memory. Leaves out sandboxes that stop meanwhile or cannot be read.
 */
export async function* listPodSandboxStats(
  { filter }: ListPodSandboxStatsRequest | StreamPodSandboxStatsRequest,
  services: Services,
  call: Call,
): AsyncGenerator<Answer<PodSandboxStats>> {
  const wanted: Sandbox[] = [];
  await services.state.link.live(call.signal);
  const near = filter === null ? undefined : { id: filter.id, labels: filter.label_selector };
  for (const sandbox of services.state.model.sandboxes(near)) {
    if (filter !== null) {
      if (!matchesId(sandbox.id, filter.id)) continue;
      if (!matchesLabels(sandbox.snapshot.labels, filter.label_selector)) continue;
    }
    wanted.push(sandbox);
  }
  yield* statsOfPods(wanted, services, call.signal);
}

/** Statistics of the ready ones among `sandboxes`. */
async function* statsOfPods(
  sandboxes: readonly Sandbox[],
  { state: { link, model }, stats: { source: stats, layers }, node: { host } }: Services,
  signal: AbortSignal,
): AsyncGenerator<Answer<PodSandboxStats>> {
  const mountpoint = await host().imageDirectory(await link.live(signal));
  const pods = runningPods(sandboxes, model);
  const byId = new Map(pods.map((parts) => [parts.pod.id, parts]));
  for await (const [id, reading] of stats().readPods(pods, { details: false }, signal)) {
    const parts = byId.get(id);
    if (parts === undefined) continue;
    const containers: Answer<ContainerStats>[] = [];
    for (const container of parts.running) {
      const own = reading.containers.get(container.id);
      if (own === undefined) continue;
      containers.push(containerStatsItem(container, own, layers.usageOf(container.id), mountpoint));
    }
    yield podSandboxStatsItem(parts.pod, reading, containers);
  }
}
