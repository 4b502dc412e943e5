/** When a container that has ended runs again, and why one is killed. Pure. */
import type { Container, EphemeralContainer, PodSpec } from "../manifests/pod-schema.js";
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
export function shouldRun(
  spec: PodSpec,
  container: Container | EphemeralContainer,
  entry: ObservedContainer | undefined,
): boolean {
  if (entry?.state === "running") return false;
  return entry?.state !== "exited" || restartsAfter(spec, container, entry.exitCode);
}

/** The first of its restartPolicyRules that matches, else its policy: the kubelet's ContainerShouldRestart. */
export function restartsAfter(
  spec: PodSpec,
  container: Container | EphemeralContainer,
  exitCode: number,
): boolean {
  if (ruleFor(container, exitCode) !== undefined) return true;
  const policy = policyOf(spec, container);
  return policy === "Always" || (policy === "OnFailure" && exitCode !== 0);
}

/** The end of this container makes all containers of the pod start anew. */
export function restartsAll(
  container: Container | EphemeralContainer,
  entry: Pick<ObservedContainer, "state" | "exitCode">,
): boolean {
  return entry.state === "exited" && ruleFor(container, entry.exitCode)?.action === "RestartAllContainers";
}

function ruleFor({ restartPolicyRules = [] }: Container | EphemeralContainer, exitCode: number) {
  return restartPolicyRules.find(
    ({ exitCodes: { operator, values = [] } }) => values.includes(exitCode) === (operator === "In"),
  );
}

export type RestartPolicy = "Always" | "OnFailure" | "Never";

export function restartPolicyOf({ restartPolicy = "Always" }: PodSpec): RestartPolicy {
  return restartPolicy;
}

/** Without its rules, which need an exit code. */
export function policyOf(spec: PodSpec, { restartPolicy }: Container | EphemeralContainer): RestartPolicy {
  return restartPolicy ?? restartPolicyOf(spec);
}

export function isSidecar({ restartPolicy }: Pick<Container, "restartPolicy">): boolean {
  return restartPolicy === "Always";
}
