import { isKind } from "../../../lib/errors.js";
import type { Call } from "../../../lib/call.js";
import { hasDockerNetwork, type Sandbox } from "../../../domain/sandbox.js";
import type { PodSandboxCheckpoint } from "../../ports/checkpoint-store.js";
import { noopPluginName, type PodNetworkReference } from "../../ports/network-plugin.js";
import type { PodRecord } from "../../state/pod-records.js";
import { portMappingsIn } from "../../state/records.js";
import type { Services } from "../services.js";

/**
 * Tears the pod's network down, unless an earlier call succeeded, also before a restart of this program.
 * `sandbox` is undefined when the engine lost the container: then record and checkpoint name the pod. True
 * when the success is to be recorded: `recordTearDown`. `namespaceHeld` as in `PodNetworkTearDown`.
 */
export async function tearDownNetwork(
  id: string,
  sandbox: Sandbox | undefined,
  readCheckpoint: Promise<PodSandboxCheckpoint | undefined>,
  namespaceHeld: () => void,
  services: Services,
  call: Call,
): Promise<boolean> {
  const { network } = services;
  const { pods: podRecords } = services.records;
  const record = podRecords.get(id);
  if (record?.network.state === "tornDown" || record?.network.state === "none") return false;
  const checkpoint = await readCheckpoint;
  // An unknown id must not reach the plugin.
  if (sandbox === undefined && record === undefined && checkpoint === undefined) return false;
  if (sandbox?.hostNetwork ?? checkpoint?.data.hostNetwork === true) return false;
  const reference = referenceOf(id, sandbox, record, checkpoint);
  const namespace =
    sandbox === undefined ? undefined : services.node.host().networkNamespace(sandbox.snapshot);
  const portMappings = portMappingsIn(checkpoint);
  // RunPodSandbox did not finish: its undo failed, or the program was killed.
  const unfinished = record?.network.state === "settingUp" ? { unfinished: true } : {};
  const setUpBy = networkMaker(sandbox, record);
  await network.tearDownPod(
    { ...reference, portMappings, ...namespace, ...unfinished, setUpBy, namespaceHeld },
    call.signal,
  );
  return record !== undefined;
}

/**
 * Name of the plugin that has set the pod up; undefined when it is not known: for pods of dockershim and
 * cri-dockerd on a network that is not Docker's. The container proves more than the record: earlier releases
 * wrote the plugin of the first StopPodSandbox into it.
 */
export function networkMaker(
  sandbox: Sandbox | undefined,
  record: PodRecord | undefined,
): string | undefined {
  if (sandbox !== undefined && hasDockerNetwork(sandbox.snapshot)) return noopPluginName;
  const plugin = record?.network.plugin ?? "";
  return plugin === "" || (sandbox !== undefined && plugin === noopPluginName) ? undefined : plugin;
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

/** Never throws: without the record, a second tear-down is harmless. */
export async function recordTearDown(
  id: string,
  { records: { pods: podRecords }, log }: Services,
  call: Call,
): Promise<void> {
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
