import type { Call } from "../../../lib/call.js";
import type {
  Container,
  ContainerFilter,
  ListContainersRequest,
  StreamContainersRequest,
} from "../../../domain/cri.js";
import { matchesId, matchesLabels } from "../../../domain/id-and-label-filters.js";
import type { Wanted } from "../../state/read-model.js";
import type { Services } from "../services.js";

/** ListContainers and StreamContainers: from memory. Filters are ANDed; id filters may be prefixes. */
export async function listContainers(
  request: ListContainersRequest | StreamContainersRequest,
  { state: { link, model } }: Services,
  call: Call,
): Promise<readonly Container[]> {
  await link.live(call.signal);
  const { filter } = request;
  const containers: Container[] = [];
  for (const container of model.containerEntries(filter === null ? undefined : wantedBy(filter))) {
    if (filter !== null) {
      if (filter.state !== null && container.state !== filter.state.state) continue;
      if (!matchesId(container.id, filter.id) || !matchesId(container.sandboxId, filter.pod_sandbox_id))
        continue;
      if (!matchesLabels(container.snapshot.labels, filter.label_selector)) continue;
    }
    containers.push(container.item);
  }
  return containers;
}

/** What the read model can look up. */
export function wantedBy({
  id,
  pod_sandbox_id,
  label_selector,
}: Pick<ContainerFilter, "id" | "pod_sandbox_id" | "label_selector">): Wanted {
  return { id, sandboxId: pod_sandbox_id, labels: label_selector };
}
