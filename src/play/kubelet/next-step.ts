/** The next step of `play` for one pod, from its manifest and its observed state. Pure. */
import type { Container } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";

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
  readonly attempt: number;
  readonly state: ObservedState;
  /** Meaningful when exited. */
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string;
}

/** A pod as the CRI shows it. */
export interface ObservedPod {
  /** All sandboxes under the pod's namespace and name. */
  readonly sandboxes: readonly ObservedSandbox[];
  /** Those of the newest sandbox; one per name, the newest attempt. */
  readonly containers: readonly ObservedContainer[];
}

export type Step =
  | { readonly do: "ensureImage"; readonly container: Container }
  | { readonly do: "removeSandbox"; readonly sandbox: ObservedSandbox }
  | { readonly do: "runSandbox" }
  | { readonly do: "createContainer"; readonly container: Container; readonly isInit: boolean }
  | { readonly do: "startContainer"; readonly container: ObservedContainer; readonly isInit: boolean }
  | { readonly do: "awaitInitContainer"; readonly container: ObservedContainer }
  | { readonly do: "fail"; readonly reason: string; readonly container?: ObservedContainer }
  | { readonly do: "nothing" };

/**
 * Ensures all images first, so that a missing image fails before a container runs. Then the order is that of
 * the kubelet's SyncPod. `ready` names the containers whose image this run has ensured.
 */
export function nextStep(manifest: Manifest, observed: ObservedPod, ready: ReadonlySet<string>): Step {
  const { pod, key, hash } = manifest;
  const conflict = conflictOf(observed.sandboxes, key.uid, hash);
  if (conflict !== undefined) return { do: "fail", reason: conflict };

  const newest = newestSandbox(observed.sandboxes);
  const sandbox = newest?.isReady === true ? newest : undefined;
  const initContainers = pod.spec.initContainers ?? [];
  const byName = new Map(
    sandbox === undefined ? [] : observed.containers.map((entry) => [entry.name, entry]),
  );
  const missing = [...initContainers, ...pod.spec.containers].find(
    ({ name }) => !byName.has(name) && !ready.has(name),
  );
  // A pod whose containers all exist needs no image any more.
  const isComplete = pod.spec.containers.every(({ name }) => byName.has(name));
  if (missing !== undefined && !isComplete) return { do: "ensureImage", container: missing };

  const obsolete = observed.sandboxes.find((candidate) => candidate !== sandbox);
  if (obsolete !== undefined) return { do: "removeSandbox", sandbox: obsolete };
  if (sandbox === undefined) return { do: "runSandbox" };

  // Once one of spec.containers exists, the init containers have ended and may have been removed.
  const initIsOver = pod.spec.containers.some(({ name }) => byName.has(name));
  if (!initIsOver) {
    for (const container of initContainers) {
      const step = initStep(container, byName.get(container.name));
      if (step !== undefined) return step;
    }
  }
  for (const container of pod.spec.containers) {
    const entry = byName.get(container.name);
    if (entry === undefined) return { do: "createContainer", container, isInit: false };
    if (entry.state === "created") return { do: "startContainer", container: entry, isInit: false };
  }
  return { do: "nothing" };
}

/** Undefined when the init container has ended well. */
function initStep(container: Container, entry: ObservedContainer | undefined): Step | undefined {
  if (entry === undefined) return { do: "createContainer", container, isInit: true };
  switch (entry.state) {
    case "created":
      return { do: "startContainer", container: entry, isInit: true };
    case "running":
    case "unknown":
      return { do: "awaitInitContainer", container: entry };
    case "exited":
      if (entry.exitCode === 0) return undefined;
      return {
        do: "fail",
        reason: `init container "${entry.name}" failed`,
        container: entry,
      };
  }
}

/** The reason why play must not touch the pod, or undefined. */
function conflictOf(sandboxes: readonly ObservedSandbox[], uid: string, hash: string): string | undefined {
  if (sandboxes.some(({ playHash }) => playHash === undefined)) {
    return "a pod of this name is on the node that was not made by play";
  }
  if (sandboxes.some((sandbox) => sandbox.uid !== uid)) {
    return 'it was played with another uid: remove it first with "play --down"';
  }
  if (sandboxes.some(({ playHash }) => playHash !== hash)) {
    return 'its manifest has changed since it was played: remove it first with "play --down"';
  }
  return undefined;
}

export function newestSandbox(sandboxes: readonly ObservedSandbox[]): ObservedSandbox | undefined {
  return [...sandboxes].sort((left, right) => {
    if (left.createdAt === right.createdAt) return right.attempt - left.attempt;
    return left.createdAt < right.createdAt ? 1 : -1;
  })[0];
}

/** `exit code 3`, with what the runtime and the container say about it. */
export function describeExit({ exitCode, reason, message }: ObservedContainer): string {
  const known = reason === "" || reason === "Error" || reason === "Completed" ? "" : ` (${reason})`;
  return `exit code ${exitCode}${known}${message === "" ? "" : `: ${message}`}`;
}
