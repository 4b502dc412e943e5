import type { OpenFileLimits } from "../ports/host.js";
import { isCgroupOf, type ProcFiles } from "./processes/proc-files.js";

/**
 * What the process of a container may open. Read from a process in a container and not from dockerd or
 * containerd, whose Go runtime raises its own soft limit and gives its children the former one.
 */
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
