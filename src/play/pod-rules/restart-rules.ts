/** When a container that has ended runs again, and why one is killed. Pure. */
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import type { ObservedContainer } from "./observed-pod.js";

export type KillReason = "startupProbe" | "livenessProbe" | "postStartHook" | "other";

export interface ContainerKill {
  readonly container: ObservedContainer;
  readonly reason: KillReason;
  /** For the event, such as `Container web failed liveness probe, will be restarted`. */
  readonly message: string;
}

export function unknownKill(container: ObservedContainer, what: string): ContainerKill {
  const message = `${what} is in "unknown" state, try killing it before restart`;
  return { container, reason: "other", message };
}

/** Whether a container that does not run must be started: the kubelet's ShouldContainerBeRestarted. */
export function shouldRun(spec: PodSpec, entry: ObservedContainer | undefined): boolean {
  if (entry?.state === "running") return false;
  if (entry?.state !== "exited") return true;
  const policy = restartPolicyOf(spec);
  return policy === "Always" || (policy === "OnFailure" && entry.exitCode !== 0);
}

export function restartPolicyOf({ restartPolicy = "Always" }: PodSpec): "Always" | "OnFailure" | "Never" {
  return restartPolicy;
}

export function isSidecar({ restartPolicy }: Pick<Container, "restartPolicy">): boolean {
  return restartPolicy === "Always";
}
