import type { Call } from "../base/call.js";
import type { Container } from "../domain/container.js";
import type { Answer, ListContainerStatsRequest, ListContainerStatsResponse } from "../domain/cri.js";
import { matchesId, matchesLabels } from "../domain/filter.js";
import { wantedBy } from "./list-containers.js";
import { isRunning } from "./pod-parts.js";
import type { Services } from "./services.js";
import { containerStatsItem } from "./stats-items.js";

/** Of running containers. One that ends meanwhile or cannot be read is left out. Filters as in ListContainers. */
export async function listContainerStats(
  { filter }: ListContainerStatsRequest,
  { link, model, stats, layers, host }: Pick<Services, "link" | "model" | "stats" | "layers" | "host">,
  call: Call,
): Promise<Answer<ListContainerStatsResponse>> {
  const mountpoint = await host().imageDirectory(await link.live(call.signal));
  const containers: Container[] = [];
  for (const container of model.containers(filter === null ? undefined : wantedBy(filter))) {
    if (!isRunning(container)) continue;
    if (filter !== null) {
      if (!matchesId(container.id, filter.id) || !matchesId(container.sandboxId, filter.pod_sandbox_id))
        continue;
      if (!matchesLabels(container.snapshot.labels, filter.label_selector)) continue;
    }
    containers.push(container);
  }
  const readings = await stats().readContainers(
    containers.map(({ snapshot }) => snapshot),
    { details: false },
    call.signal,
  );
  return {
    stats: containers.flatMap((container) => {
      const reading = readings.get(container.id);
      if (reading === undefined) return [];
      return [containerStatsItem(container, reading, layers.usageOf(container.id), mountpoint)];
    }),
  };
}
