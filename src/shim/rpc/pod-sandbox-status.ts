import type { Call } from "../base/call.js";
import { nowNanoseconds } from "../base/time.js";
import type {
  Answer,
  PodSandboxStatus,
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
} from "../domain/cri.js";
import type { Sandbox } from "../domain/sandbox.js";
import { requireReadSandbox } from "./find-by-id.js";
import type { Services } from "./services.js";

/** From memory; a sandbox that exists only as a checkpoint is NOT_FOUND, because it has no uid to answer with. */
export async function podSandboxStatus(
  request: PodSandboxStatusRequest,
  services: Pick<Services, "link" | "model" | "sync" | "podRecords" | "network">,
  call: Call,
): Promise<Answer<PodSandboxStatusResponse>> {
  await services.link.live(call.signal);
  const sandbox = await requireReadSandbox(request.pod_sandbox_id, services, call.signal);
  return {
    status: await statusOf(sandbox, services),
    info: request.verbose ? { info: JSON.stringify(verboseInfo(sandbox, services)) } : {},
    timestamp: String(nowNanoseconds()),
  };
}

async function statusOf(
  sandbox: Sandbox,
  services: Pick<Services, "podRecords" | "network">,
): Promise<Answer<PodSandboxStatus>> {
  const [ip = "", ...additional] = await addressesOf(sandbox, services);
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
  { podRecords, network }: Pick<Services, "podRecords" | "network">,
): Promise<readonly string[]> {
  if (sandbox.hostNetwork || !sandbox.ready) return [];
  const record = podRecords.get(sandbox.id);
  if (record?.network.state === "tornDown") return [];
  if (record !== undefined && record.network.ips.length > 0) return record.network.ips;
  const stored = await network.podAddresses({ ...sandbox.pod, sandboxId: sandbox.id });
  return stored ?? sandbox.snapshot.addresses;
}

function verboseInfo(
  sandbox: Sandbox,
  { podRecords }: Pick<Services, "podRecords">,
): Record<string, unknown> {
  const { snapshot } = sandbox;
  return {
    pid: snapshot.state.pid,
    image: snapshot.imageName,
    dockerName: snapshot.name,
    cgroupParent: snapshot.cgroupParent,
    runtime: snapshot.runtime,
    network: podRecords.get(sandbox.id)?.network,
  };
}
