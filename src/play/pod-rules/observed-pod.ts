/** A pod as the CRI shows it. Pure. */

export interface ObservedSandbox {
  readonly id: string;
  readonly attempt: number;
  readonly isReady: boolean;
  /** Nanoseconds. */
  readonly createdAt: bigint;
  /** Value of the annotation that `play` sets; undefined for a sandbox of another program. */
  readonly playHash: string | undefined;
  readonly uid: string;
}

export type ObservedState = "created" | "running" | "exited" | "unknown";

export interface ObservedContainer {
  readonly id: string;
  readonly name: string;
  readonly sandboxId: string;
  /** How often the container was restarted before. */
  readonly attempt: number;
  readonly state: ObservedState;
  /** What `containerHash` was at its creation. */
  readonly hash: string;
  readonly image: string;
  readonly imageId: string;
  /** The pod's grace period when the container was created; undefined for a container of another program. */
  readonly graceSeconds: number | undefined;
  /** Nanoseconds. */
  readonly createdAt: bigint;
  /** Milliseconds since 1970; 0 before the start. */
  readonly startedAt: number;
  /** Milliseconds since 1970; 0 before the end. */
  readonly finishedAt: number;
  /** Meaningful when exited. */
  readonly exitCode: number;
  readonly reason: string;
  /** With the termination message. */
  readonly message: string;
}

export interface ObservedPod {
  /** All sandboxes under the pod's namespace and name, the newest first. */
  readonly sandboxes: readonly ObservedSandbox[];
  /** Those of all sandboxes, the newest first. */
  readonly containers: readonly ObservedContainer[];
  /** The addresses of the newest sandbox, while it is ready. */
  readonly ips: readonly string[];
  /** The newest sandbox is ready and has a network status without an address. */
  readonly lacksIp: boolean;
}

/** The newest container of that name. */
export function newestContainer(
  { containers }: Pick<ObservedPod, "containers">,
  name: string,
): ObservedContainer | undefined {
  return containers.find((container) => container.name === name);
}

/** Newest first. Attempts of a pod only grow; times alone are wrong after the clock was set back. */
export function byAge(
  left: { readonly createdAt: bigint; readonly attempt: number },
  right: { readonly createdAt: bigint; readonly attempt: number },
): number {
  if (left.attempt !== right.attempt) return right.attempt - left.attempt;
  if (left.createdAt === right.createdAt) return 0;
  return left.createdAt < right.createdAt ? 1 : -1;
}

/** `exit code 3`, with what the runtime and the container say about it. */
export function describeExit({
  exitCode,
  reason,
  message,
}: Pick<ObservedContainer, "exitCode" | "reason" | "message">): string {
  const known = reason === "" || reason === "Error" || reason === "Completed" ? "" : ` (${reason})`;
  return `exit code ${exitCode}${known}${message === "" ? "" : `: ${message}`}`;
}

/** Where handlers reach the pod's ports. */
export function podIpOf(
  { hostNetwork }: { readonly hostNetwork?: boolean },
  { ips }: Pick<ObservedPod, "ips">,
): string {
  return hostNetwork === true ? "127.0.0.1" : (ips[0] ?? "");
}
