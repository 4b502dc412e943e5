import type { PortMapping } from "../../domain/sandbox.js";
import type { CheckpointStore, PodSandboxCheckpoint } from "../ports/checkpoint-store.js";
import type { ContainerRecords } from "./container-records.js";
import type { PodRecords } from "./pod-records.js";

/** What is on disk of pods and containers. */
export interface Records {
  readonly pods: PodRecords;
  readonly containers: ContainerRecords;
  readonly checkpoints: CheckpointStore;
}

/** Waits until checkpoint and record of a new pod outlive a power cut: they are flushed while the pod is set up. */
export async function flushed(
  sandboxId: string,
  { checkpoints, pods }: Pick<Records, "checkpoints" | "pods">,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([checkpoints.flushed(sandboxId, signal), pods.flushed(sandboxId, signal)]);
}

/** Port mappings of a pod's set-up, from its checkpoint: the tear-down needs the same ones. */
export function portMappingsIn(checkpoint: PodSandboxCheckpoint | undefined): readonly PortMapping[] {
  return (checkpoint?.data.portMappings ?? []).map((mapping) => ({ hostIp: "", ...mapping }));
}
