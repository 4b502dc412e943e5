/** Cgroups of pods. Kubelets make one for each pod and remove it after the pod; here the engine makes them, and the bench removes them. */
import { readdir, rmdir } from "node:fs/promises";
import { join } from "node:path";

const root = "/sys/fs/cgroup";
const parent = "kubepods-bench";

/** Path below the root of cgroups for `cgroup_parent`. */
export function podCgroup(name: string): string {
  return `/${parent}/${name}`;
}

/** To be called when the containers are gone. What is still in use stays; nothing is there on a host without cgroups. */
export async function removePodCgroups(): Promise<void> {
  // Version 1 has a tree for each controller, version 2 only one.
  const hierarchies = ["", ...(await readdir(root).catch(() => []))];
  for (const hierarchy of hierarchies) {
    const all = join(root, hierarchy, parent);
    for (const name of await readdir(all).catch(() => [])) {
      // Files of the kernel are no directories.
      await rmdir(join(all, name)).catch(() => undefined);
    }
    await rmdir(all).catch(() => undefined);
  }
}
