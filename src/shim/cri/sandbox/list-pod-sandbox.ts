import type { Call } from "../../../lib/call.js";
import type { ListPodSandboxRequest, PodSandbox, StreamPodSandboxesRequest } from "../../../domain/cri.js";
import { PodSandboxState } from "../../../domain/cri.js";
import { matchesId, matchesLabels } from "../../../domain/id-and-label-filters.js";
import type { Services } from "../services.js";

/** ListPodSandbox and StreamPodSandboxes: from memory. Filters are ANDed; an id filter may be a prefix. */
export async function listPodSandbox(
  request: ListPodSandboxRequest | StreamPodSandboxesRequest,
  services: Services,
  call: Call,
): Promise<readonly PodSandbox[]> {
  const { link, model } = services.state;
  await link.live(call.signal);
  const { filter } = request;
  const items: PodSandbox[] = [];
  if (filter === null) {
    for (const sandbox of model.sandboxEntries()) items.push(sandbox.item);
    items.push(...(await checkpointOnly(services)));
    return items;
  }
  const ready = filter.state === null ? undefined : filter.state.state === PodSandboxState.SANDBOX_READY;
  for (const sandbox of model.sandboxEntries({ id: filter.id, labels: filter.label_selector })) {
    if (ready !== undefined && sandbox.ready !== ready) continue;
    if (!matchesId(sandbox.id, filter.id) || !matchesLabels(sandbox.snapshot.labels, filter.label_selector))
      continue;
    items.push(sandbox.item);
  }
  return items;
}

/**
 * Sandboxes whose container the engine lost and whose checkpoint still exists. An unfiltered list shows them
 * as not ready, so that the kubelet stops and removes them, which releases their network.
 */
async function checkpointOnly({
  records: { checkpoints },
  state: { model },
  log,
}: Services): Promise<readonly PodSandbox[]> {
  const items: PodSandbox[] = [];
  for (const id of await checkpoints.list()) {
    if (model.has(id)) continue;
    const checkpoint = await checkpoints.get(id);
    if (checkpoint === undefined) continue;
    log.debug({ sandboxId: id }, "sandbox exists only as a checkpoint");
    items.push({
      id,
      metadata: { name: checkpoint.name, namespace: checkpoint.namespace, uid: "", attempt: 0 },
      state: PodSandboxState.SANDBOX_NOTREADY,
      created_at: "0",
      labels: {},
      annotations: {},
      runtime_handler: "",
    });
  }
  return items;
}
