/** Processes of the node itself, told from those of containers before anything of theirs is read that has no limit. */
import type { ProcFiles } from "./proc-files.js";

/**
 * Whether the process can be a service of this node: in this program's own PID namespace, of root or of the user that this
 * program runs as, and in no cgroup of a container or pod that this program is not in itself. A pod in the host's PID
 * namespace can call its processes what it likes, but cannot leave its cgroup.
 */
export async function isNodeService(proc: ProcFiles, pid: number): Promise<boolean> {
  const [ownNamespace, namespace] = await Promise.all([
    proc.link("self", "ns/pid"),
    proc.link(pid, "ns/pid"),
  ]);
  if (ownNamespace === undefined || ownNamespace !== namespace) return false;
  const [ownCgroup, cgroup] = await Promise.all([proc.text("self", "cgroup"), proc.text(pid, "cgroup")]);
  if (cgroup === undefined) return false;
  const own = new Set(containersIn(ownCgroup ?? ""));
  if (containersIn(cgroup).some((container) => !own.has(container))) return false;
  const [ownUser, user] = await Promise.all([userOf(proc, "self"), userOf(proc, pid)]);
  return user !== undefined && (user === 0 || user === ownUser);
}

/** What all drivers and runtimes put into the paths of the cgroups of containers, and kubelets into those of pods. */
function containersIn(procCgroup: string): readonly string[] {
  return procCgroup.match(/[0-9a-f]{64}|kubepods/g) ?? [];
}

/**
 * Undefined for programs that run with the rights of another user than who started them. The owner of the files below
 * /proc does not tell: they are root's for some processes of others.
 */
async function userOf(proc: ProcFiles, pid: number | "self"): Promise<number | undefined> {
  const id = /^Uid:\s+(\d+)\s+\1\s/m.exec((await proc.text(pid, "status")) ?? "")?.[1];
  return id === undefined ? undefined : Number(id);
}
