import { isKind } from "../../lib/errors.js";
import type { Call } from "../../lib/call.js";
import type { Sandbox } from "../../domain/sandbox.js";
import type { PodNetworkReference } from "../../ports/network-plugin.js";
import type { PodRecord } from "../../state/pod-records.js";
import { portMappingsOf } from "../../state/records.js";
import type { Services } from "../services.js";

/**
 * Tears the pod's network down, unless an earlier call succeeded, also before a restart of this program.
 * `sandbox` is undefined when the engine lost the container: then record and checkpoint name the pod.
 */
export async function tearDownNetwork(
  id: string,
  sandbox: Sandbox | undefined,
  services: Services,
  call: Call,
): Promise<void> {
  const { network } = services;
  const { pods: podRecords, checkpoints } = services.records;
  const record = podRecords.get(id);
  if (record?.network.state === "tornDown" || record?.network.state === "none") return;
  const checkpoint = await checkpoints.get(id);
  // An unknown id must not reach the plugin.
  if (sandbox === undefined && record === undefined && checkpoint === undefined) return;
  if (sandbox?.hostNetwork ?? checkpoint?.data.hostNetwork === true) return;
  const reference = referenceOf(id, sandbox, record, checkpoint);
  const namespace =
    sandbox === undefined ? undefined : services.node.host().networkNamespace(sandbox.snapshot);
  const portMappings = await portMappingsOf(id, services.records);
  // RunPodSandbox did not finish: its undo failed, or the program was killed.
  const unfinished = record?.network.state === "settingUp" ? { unfinished: true } : {};
  await network.tearDownPod({ ...reference, portMappings, ...namespace, ...unfinished }, call.signal);
  await remember(id, record, services, call);
}

function referenceOf(
  id: string,
  sandbox: Sandbox | undefined,
  record: PodRecord | undefined,
  checkpoint: { readonly name: string; readonly namespace: string } | undefined,
): PodNetworkReference {
  const known = sandbox?.pod ?? record ?? checkpoint;
  return { sandboxId: id, namespace: known?.namespace ?? "", name: known?.name ?? "" };
}

/** Never fails the call: without the record, a second tear-down is harmless. */
async function remember(
  id: string,
  record: PodRecord | undefined,
  { records: { pods: podRecords }, log }: Services,
  call: Call,
): Promise<void> {
  if (record === undefined) return;
  try {
    await podRecords.update(id, (current) => ({
      ...current,
      network: { ...current.network, state: "tornDown" },
    }));
  } catch (error) {
    if (isKind(error, "notFound")) return;
    log.warn({ rpc: call.rpc, sandboxId: id, err: error }, "cannot record the tear-down of the pod network");
  }
}
