import { newestFirst } from "../../../domain/container.js";
import {
  type Answer,
  type IDMapping,
  NamespaceMode,
  type NamespaceOption,
  type PodSandboxStatus,
  type PodSandboxStatusResponse,
} from "../../../domain/cri.js";
import type { MappedIds } from "../../../domain/oci-changes.js";
import { hasDockerNetwork, type Sandbox } from "../../../domain/sandbox.js";
import { describeContainer } from "../container/container-status.js";
import { requireReadSandbox } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";

/** From memory. A sandbox that exists only as a checkpoint is NOT_FOUND: its uid is not known. */
export const podSandboxStatus: Handler<"PodSandboxStatus"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const sandbox = await requireReadSandbox(request.pod_sandbox_id, services, call.signal);
  const [status, containers] = await Promise.all([
    describeSandbox(sandbox, services),
    describeContainers(sandbox, services, call.signal),
  ]);
  return {
    status,
    ...containers,
    info: request.verbose ? { info: JSON.stringify(verboseInfo(sandbox, services)) } : {},
  };
};

/**
 * All containers of the pod, with a timestamp, for kubelets with EventedPLEG. Both are left out while a
 * container of the pod is not inspected yet: the kubelet would take its absence for its end. Without a
 * timestamp the kubelet asks for each container.
 */
async function describeContainers(
  { id }: Sandbox,
  services: Services,
  signal: AbortSignal,
): Promise<Pick<Answer<PodSandboxStatusResponse>, "containers_statuses" | "timestamp">> {
  const { events } = services;
  const { model } = services.state;
  if (!model.isFullyInspected(id)) return {};
  const timestamp = String(events.timestamp());
  const containers = newestFirst(model.containersOf(id));
  return {
    containers_statuses: await Promise.all(
      containers.map((container) => describeContainer(container, services, signal)),
    ),
    timestamp,
  };
}

/** The status of a sandbox, for answers and events. */
export async function describeSandbox(
  sandbox: Sandbox,
  services: Pick<Services, "records" | "network" | "node" | "settings">,
): Promise<Answer<PodSandboxStatus>> {
  const [ip = "", ...others] = await addressesOf(sandbox, services);
  const additional = services.settings.allPodAddresses ? others : [];
  return {
    ...sandbox.item,
    network: { ip, additional_ips: additional.map((address) => ({ ip: address })) },
    linux: { namespaces: { options: { ...sandbox.namespaces, ...usersOf(sandbox, services) } } },
  };
}

function usersOf({ id }: Sandbox, { records }: Pick<Services, "records">): Answer<NamespaceOption> {
  const users = records.containers.get(id)?.oci?.users;
  if (users === undefined) return {};
  const mapping = ({ hostId, size }: MappedIds): IDMapping => ({
    container_id: 0,
    host_id: hostId,
    length: size,
  });
  return {
    userns_options: { mode: NamespaceMode.POD, uids: [mapping(users.uids)], gids: [mapping(users.gids)] },
  };
}

/**
 * Pod IPs, the primary one first: those of the set-up, from the record or the plugin, else Docker's. None in
 * the host's network, before the set-up and after the tear-down.
 */
async function addressesOf(
  sandbox: Sandbox,
  { records: { pods: podRecords }, network, node: { host } }: Pick<Services, "records" | "network" | "node">,
): Promise<readonly string[]> {
  if (sandbox.hostNetwork || !sandbox.ready) return [];
  const record = podRecords.get(sandbox.id);
  if (record?.network.state === "tornDown") return [];
  if (record !== undefined && record.network.ips.length > 0) return record.network.ips;
  if (hasDockerNetwork(sandbox.snapshot)) return sandbox.snapshot.addresses;
  const stored = await network.podAddresses({
    ...sandbox.pod,
    sandboxId: sandbox.id,
    ...(record === undefined ? { look: () => host().networkNamespace(sandbox.snapshot) } : {}),
  });
  return stored ?? [];
}

function verboseInfo(sandbox: Sandbox, { records: { pods: podRecords } }: Services): Record<string, unknown> {
  const { snapshot } = sandbox;
  const record = podRecords.get(sandbox.id);
  return {
    pid: snapshot.state.pid,
    image: snapshot.imageName,
    dockerName: snapshot.name,
    cgroupParent: snapshot.cgroupParent,
    runtime: snapshot.runtime,
    network: record?.network,
    ...record?.resources,
  };
}
