import type { Call } from "../../lib/call.js";
import { collect } from "../../lib/streams.js";
import type {
  Answer,
  ContainerStatsRequest,
  ContainerStatsResponse,
  ContainerStats,
  ListContainerStatsRequest,
  ListContainerStatsResponse,
} from "../../domain/cri.js";
import { requireReadContainer } from "../find-by-id.js";
import { isRunning } from "./pod-parts.js";
import type { Services } from "../services.js";
import { containerStatsItem } from "./stats-items.js";
import type { Container } from "../../domain/container.js";
import { matchesId, matchesLabels } from "../../domain/filter.js";
import type { Snapshot } from "../../domain/snapshot.js";
import { wantedBy } from "../container/list-containers.js";

/** Of a container that does not run only what it has written is told. `notFound` for unknown ids. */
export async function containerStats(
  { container_id }: ContainerStatsRequest,
  services: Pick<Services, "link" | "model" | "sync" | "stats" | "layers" | "host">,
  call: Call,
): Promise<Answer<ContainerStatsResponse>> {
  const mountpoint = await services.host().imageDirectory(await services.link.live(call.signal));
  const container = await requireReadContainer(container_id, services, call.signal);
  const { id, snapshot } = container;
  const running = isRunning(container) ? [snapshot] : [];
  const [own] = await collect(services.stats().readContainers(running, { details: false }, call.signal));
  const layer = services.layers.usageOf(id);
  return { stats: containerStatsItem(container, own?.[1], layer, mountpoint) };
}

type Deps = Pick<Services, "link" | "model" | "stats" | "layers" | "host">;

/** Of running containers. One that ends meanwhile or cannot be read is left out. Filters as in ListContainers. */
export async function listContainerStats(
  request: ListContainerStatsRequest,
  deps: Deps,
  call: Call,
): Promise<Answer<ListContainerStatsResponse>> {
  return { stats: await collect(readListedContainers(request, deps, call)) };
}

/** The items of `listContainerStats`, each read and made when it is taken. */
export async function* readListedContainers(
  { filter }: ListContainerStatsRequest,
  { link, model, stats, layers, host }: Deps,
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
