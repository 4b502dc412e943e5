/** Which pods have a network, by what is on record of them. */
import type { HostPortOwner } from "../ports/network-plugin.js";
import type { Engine } from "../ports/engine.js";
import { portMappingsIn, type Records } from "../state/records.js";

/** Whether a pod has a network of this plugin that was not torn down yet. */
export function hasNetworkOf(plugin: string, { pods }: Pick<Records, "pods">): boolean {
  return [...pods.all()].some(
    ({ network }) => network.plugin === plugin && network.state !== "tornDown" && network.state !== "none",
  );
}

/**
 * Pods that have a network now: by our records, and by the checkpoints that dockershim and cri-dockerd wrote
 * for pods that still run. Those have no record, and no network any more once their container has ended.
 */
export async function hostPortOwners(
  { pods, checkpoints }: Pick<Records, "pods" | "checkpoints">,
  engine: Pick<Engine, "listContainers">,
  signal: AbortSignal,
): Promise<readonly HostPortOwner[]> {
  const owners: HostPortOwner[] = [];
  const recorded = new Set<string>();
  for (const { sandboxId, namespace, name, network } of pods.all()) {
    recorded.add(sandboxId);
    if (network.state !== "ready" && network.state !== "settingUp") continue;
    owners.push({
      sandboxId,
      namespace,
      name,
      portMappings: portMappingsIn(await checkpoints.get(sandboxId)),
    });
  }
  const unrecorded = (await checkpoints.list()).filter((id) => !recorded.has(id));
  if (unrecorded.length === 0) return owners;
  const running = new Set(
    (await engine.listContainers({}, signal))
      .filter(({ status }) => status === "running" || status === "paused")
      .map(({ id }) => id),
  );
  for (const sandboxId of unrecorded.filter((id) => running.has(id))) {
    const checkpoint = await checkpoints.get(sandboxId);
    if (checkpoint === undefined || checkpoint.data.hostNetwork === true) continue;
    const { namespace, name } = checkpoint;
    owners.push({ sandboxId, namespace, name, portMappings: portMappingsIn(checkpoint) });
  }
  return owners;
}
