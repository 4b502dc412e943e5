import type { Call } from "../../lib/call.js";
import { newestFirst } from "../../domain/container.js";
import type {
  Answer,
  PodSandboxStatus,
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
} from "../../domain/cri.js";
import type { Sandbox } from "../../domain/sandbox.js";
import { describeContainer } from "../container/container-status.js";
import { requireReadSandbox } from "../find-by-id.js";
import type { Services } from "../services.js";

/** From memory; a sandbox that exists only as a checkpoint is NOT_FOUND, because it has no uid to answer with. */
export async function podSandboxStatus(
  request: PodSandboxStatusRequest,
  services: Services,
  call: Call,
): Promise<Answer<PodSandboxStatusResponse>> {
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
}

/**
 * All containers of the pod, and the moment at which they were so: kubelets with EventedPLEG take both from here. Neither
 * as long as a container of the pod was not read: its absence would be taken for its end, and without a time kubelets
 * ask for each container.
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

/** The status of `sandbox` as it is given, for answers and events alike. */
export async function describeSandbox(
  sandbox: Sandbox,
  services: Pick<Services, "records" | "network" | "node" | "settings">,
): Promise<Answer<PodSandboxStatus>> {
  const [ip = "", ...others] = await addressesOf(sandbox, services);
  const additional = services.settings.allPodAddresses ? others : [];
  return {
    ...sandbox.item,
    network: { ip, additional_ips: additional.map((address) => ({ ip: address })) },
    linux: { namespaces: { options: { ...sandbox.namespaces } } },
  };
}

/**
 * Pod IPs, first one first: those that the plugin gave at set-up, which its record or the plugin keeps; else Docker's
 * own. None for the host's network, and none before and after the pod has a network.
 */
async function addressesOf(
  sandbox: Sandbox,
  { records: { pods: podRecords }, network, node: { host } }: Pick<Services, "records" | "network" | "node">,
): Promise<readonly string[]> {
  if (sandbox.hostNetwork || !sandbox.ready) return [];
  const record = podRecords.get(sandbox.id);
  if (record?.network.state === "tornDown") return [];
  if (record !== undefined && record.network.ips.length > 0) return record.network.ips;
  const stored = await network.podAddresses({
    ...sandbox.pod,
    sandboxId: sandbox.id,
    ...(record === undefined ? { look: () => host().networkNamespace(sandbox.snapshot) } : {}),
  });
  return stored ?? sandbox.snapshot.addresses;
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
