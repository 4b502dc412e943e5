import type { Call } from "../../../lib/call.js";
import { collect } from "../../../lib/streams.js";
import type {
  Answer,
  ContainerStats,
  ListContainerStatsRequest,
  StreamContainerStatsRequest,
} from "../../../domain/cri.js";
import { requireReadContainer } from "../find-by-id.js";
import { isRunning } from "./pod-parts.js";
import type { Handler, Services } from "../services.js";
import { containerStatsItem } from "./stats-items.js";
import type { Container } from "../../../domain/container.js";
import { matchesId, matchesLabels } from "../../../domain/id-and-label-filters.js";
import type { Snapshot } from "../../../domain/snapshot.js";
import { wantedBy } from "../container/list-containers.js";

/** A container that does not run has only the size of its writable layer. */
export const containerStats: Handler<"ContainerStats"> = async ({ container_id }, services, call) => {
  const mountpoint = await services.node.host().imageDirectory(await services.state.link.live(call.signal));
  const container = await requireReadContainer(container_id, services, call.signal);
  const { id, snapshot } = container;
  const running = isRunning(container) ? [snapshot] : [];
  const [own] = await collect(
    services.stats.source().readContainers(running, { details: false }, call.signal),
  );
  const layer = services.stats.layers.usageOf(id);
  return { stats: containerStatsItem(container, own?.[1], layer, mountpoint) };
};

/**
 * ListContainerStats and StreamContainerStats, of running containers. Each item is read when the caller takes
 * it. Leaves out containers that end meanwhile or cannot be read.
 */
export async function* listContainerStats(
  { filter }: ListContainerStatsRequest | StreamContainerStatsRequest,
  { state: { link, model }, stats: { source: stats, layers }, node: { host } }: Services,
  call: Call,
): AsyncGenerator<Answer<ContainerStats>> {
  const mountpoint = await host().imageDirectory(await link.live(call.signal));
  const containers = new Map<string, Container>();
  const snapshots: Snapshot[] = [];
  for (const container of model.containers(filter === null ? undefined : wantedBy(filter))) {
    if (!isRunning(container)) continue;
    if (filter !== null) {
      if (!matchesId(container.id, filter.id) || !matchesId(container.sandboxId, filter.pod_sandbox_id))
        continue;
      if (!matchesLabels(container.snapshot.labels, filter.label_selector)) continue;
    }
    containers.set(container.id, container);
    snapshots.push(container.snapshot);
  }
  for await (const [id, reading] of stats().readContainers(snapshots, { details: false }, call.signal)) {
    const container = containers.get(id);
    if (container === undefined) continue;
    yield containerStatsItem(container, reading, layers.usageOf(id), mountpoint);
  }
}
