/** Proves by one running container which of the engine's processes, cgroups and namespaces are visible here. */
import { statSync } from "node:fs";
import { type JobReach, notReached, type ReachedJobs } from "../../../domain/reach.js";
import type { NetworkNamespaces } from "../../../lib/linux/network-namespaces.js";
import type { Snapshot } from "../../../domain/snapshot.js";
import type { HostAccess } from "../../ports/host.js";
import { isCgroupOf, procCgroup } from "../processes/proc-files.js";

export type ProcessJobs = Pick<ReachedJobs, "processes" | "cgroups" | "networkNamespaces">;

export interface ProcessProofDeps {
  readonly host: Pick<HostAccess, "cgroupDirectories">;
  readonly namespaces: NetworkNamespaces;
}

/**
 * Undefined for a container that ends meanwhile, which proves nothing. Where its process is not visible, the caller asks the
 * engine whether it runs before it believes that.
 */
export async function proveProcesses(
  container: Snapshot,
  { host, namespaces }: ProcessProofDeps,
): Promise<ProcessJobs | undefined> {
  const { id, state } = container;
  if (!isProcessOf(container)) {
    const reason =
      "the process of a running container is not visible here: " +
      "the engine is in a VM, on another host, or in another PID namespace";
    return {
      processes: notReached("processes", reason),
      cgroups: notReached("cgroups", reason),
      networkNamespaces: notReached("networkNamespaces", reason),
    };
  }
  const found = await host.cgroupDirectories(container);
  const [directory] = found?.directories.values() ?? [];
  const isThere = directory !== undefined && statSync(directory, { throwIfNoEntry: false }) !== undefined;
  const cgroups: JobReach = isThere
    ? { reached: true }
    : notReached("cgroups", `the cgroup of container "${id.slice(0, 12)}" is not mounted here`);
  const networkNamespaces: JobReach =
    namespaces.look(`/proc/${state.pid}/ns/net`) === undefined
      ? notReached("networkNamespaces", "this program may not look at the processes of containers")
      : { reached: true };
  // Read once more: all of it was seen of this container only if the process is still its own.
  return isProcessOf(container) ? { processes: { reached: true }, cgroups, networkNamespaces } : undefined;
}

function isProcessOf({ id, state: { pid } }: Snapshot): boolean {
  return pid > 1 && isCgroupOf(id, procCgroup(`/proc/${pid}`));
}
