/** A process that is not taken for a later one with the same number. */
import { readFileSync } from "node:fs";
import { hasCode } from "../files/file-errors.js";
import { readKernelFile } from "./kernel-file.js";
import { hasEnded, parseStat, type ProcessStat } from "./process-stat.js";

export interface ProcessMark {
  readonly pid: number;
  readonly startTime: string;
}

/** Undefined for a process that has ended. */
export async function statOf(pid: number | string): Promise<ProcessStat | undefined> {
  const stat = parseStat(await readKernelFile(`/proc/${pid}/stat`).catch(() => ""));
  return hasEnded(stat) ? undefined : stat;
}

/** By its `/proc/PID/stat`. Synchronous: the file is in memory, and the thread pool takes ten times the CPU. */
export function markOf(pid: number, text = textOrNothing(`/proc/${pid}/stat`)): ProcessMark | undefined {
  const stat = parseStat(text);
  if (hasEnded(stat)) return undefined;
  return stat === undefined ? undefined : { pid, startTime: stat.startTime };
}

export async function isAlive({ pid, startTime }: ProcessMark): Promise<boolean> {
  return (await statOf(pid))?.startTime === startTime;
}

/** Kills the process group, if there is one. */
export function killGroup(group: number): void {
  try {
    process.kill(-group, "SIGKILL");
  } catch (error) {
    if (!hasCode(error, "ESRCH")) throw error;
  }
}

function textOrNothing(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
