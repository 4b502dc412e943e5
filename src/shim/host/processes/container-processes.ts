/** Processes of containers, found by their cgroups: to look at all processes of a node costs much more. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { isKind } from "../../../lib/errors.js";
import { hasCode } from "../../../lib/files/file-errors.js";
import { readKernelFile } from "../../../lib/linux/kernel-file.js";
import { ContainerCgroup, readCgroupMounts, unified } from "../cgroup/cgroup-paths.js";
import { isCgroupOf, type ProcFiles } from "./proc-files.js";
import type { OpenFileLimits } from "../../ports/host.js";

/** A container that runs containers of its own has a cgroup for each. */
const mostCgroups = 256;

/** The directory that lists them, by one process of the container; undefined when it is out of reach. */
export async function findProcessList(
  containerId: string,
  pid: number,
  proc: ProcFiles,
): Promise<string | undefined> {
  const text = await proc.text(pid, "cgroup");
  if (text === undefined || !isCgroupOf(containerId, text)) return undefined;
  const cgroup = new ContainerCgroup(containerId, text, await readCgroupMounts(proc));
  try {
    return cgroup.directory("pids") ?? cgroup.directory("memory") ?? cgroup.directory(unified);
  } catch (error) {
    // This program is in a container itself, and sees other cgroups.
    if (isKind(error, "unsupported")) return undefined;
    throw error;
  }
}

/** Process ids of the cgroup and of those below it; undefined when they cannot be listed. */
export async function listProcesses(directory: string): Promise<readonly number[] | undefined> {
  const pids: number[] = [];
  const pending = [directory];
  let cgroups = 0;
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    cgroups += 1;
    if (cgroups + pending.length > mostCgroups) return undefined;
    try {
      const text = await readKernelFile(join(next, "cgroup.procs"));
      for (const line of text.split("\n")) if (/^[1-9]\d*$/.test(line)) pids.push(Number(line));
      for (const entry of await readdir(next, { withFileTypes: true })) {
        if (entry.isDirectory()) pending.push(join(next, entry.name));
      }
    } catch (error) {
      // One below that has just been removed has none; the processes of threads are listed above.
      if (next === directory || !hasCode(error, "ENOENT", "ENODEV", "EOPNOTSUPP", "ENOTSUP"))
        return undefined;
    }
  }
  return pids;
}

/** From a process in a container: the Go runtime of dockerd raises its own limit, not its children's. */
export async function openFileLimits(
  proc: ProcFiles,
  { containerId, pid }: { readonly containerId: string; readonly pid: number },
): Promise<OpenFileLimits | undefined> {
  if (pid <= 1) return undefined;
  const text = (await proc.text(pid, "limits")) ?? "";
  const [, soft, hard] = /^Max open files +(\d+|unlimited) +(\d+|unlimited) /m.exec(text) ?? [];
  if (soft === undefined || hard === undefined) return undefined;
  // The proof comes last: a process of the container has had this pid since the container started.
  if (!isCgroupOf(containerId, await proc.text(pid, "cgroup"))) return undefined;
  return { soft: toNumber(soft), hard: toNumber(hard) };
}

function toNumber(text: string): number {
  return text === "unlimited" ? Infinity : Number(text);
}
