/** What a process of this host has used, from /proc. */
import { readdirSync, readFileSync } from "node:fs";

/** Clock ticks of /proc/PID/stat. */
const ticksPerSecond = 100;

/** CPU seconds of a process so far; 0 when it is gone. */
export function cpuSecondsOf(pid: number | undefined): number {
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  } catch {
    return 0;
  }
}

/** Resident memory now. */
export function residentMebibytesOf(pid: number): number {
  const status = readFileSync(`/proc/${String(pid)}/status`, "latin1");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${String(pid)}/fd`).length;
}

/** Its helper, and what that runs. */
export function descendantsOf(pid: number): readonly number[] {
  const children = readdirSync(`/proc/${String(pid)}/task`).flatMap((task) =>
    readFileSync(`/proc/${String(pid)}/task/${task}/children`, "latin1")
      .split(" ")
      .filter(Boolean)
      .map(Number),
  );
  return children.flatMap((child) => [child, ...descendantsOf(child)]);
}
