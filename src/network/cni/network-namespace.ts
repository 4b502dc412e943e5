/** That a plugin acts on the pod's network namespace, and on no other. */
import { ShimError } from "../../shim/lib/errors.js";
import type { NetworkNamespaces } from "../../shim/lib/linux/network-namespaces.js";

/** A namespace as plugins are told of it. */
export interface PodNamespace {
  /** A path; empty for a DEL when the namespace is gone. */
  readonly netns: string;
  /** Of the namespace that was proven to be the pod's, as `NetworkNamespaces` tells it. */
  readonly netnsIdentity?: string | undefined;
}

/**
 * Throws `precondition` unless the pod's namespace still lies at the path. To be called right before each run of a
 * plugin: the path leads through a process, whose number the kernel may have given to another one in the meantime,
 * and a plugin would then work on the links, addresses and rules of the node or of another pod.
 */
export function requireNamespace(
  namespaces: NetworkNamespaces,
  { netns, netnsIdentity }: PodNamespace,
): void {
  if (netns === "") return;
  const found = namespaces.look(netns);
  const problem =
    found === undefined
      ? "it is gone"
      : found.own
        ? "it is the node's own"
        : found.identity !== netnsIdentity
          ? "it is not the pod's any more"
          : undefined;
  if (problem !== undefined) {
    throw new ShimError("precondition", `network namespace ${JSON.stringify(netns)}: ${problem}`, { netns });
  }
}

/** Whether the path means a process, whose number another one may have by now. */
export function isProcessPath(path: string): boolean {
  return path.startsWith("/proc/");
}
