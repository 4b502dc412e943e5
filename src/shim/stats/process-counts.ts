/** What the processes of a cgroup have open. */
import { readdir, readlink } from "node:fs/promises";
import { hasCode } from "../base/file-errors.js";
import type { ProcessReading } from "../domain/resource-reading.js";
import type { MemoryFiles } from "./memory-files.js";

/** Whether a descriptor is a socket takes a look at each; of more than these the sockets are not counted. */
const looksPerCgroup = 10_000;
const looksAtOnce = 16;

/**
 * Processes that end meanwhile do not count. The processes are only counted, so one that got the id of another does no harm.
 */
export async function countProcesses(
  pids: readonly number[],
  files: MemoryFiles,
  signal: AbortSignal,
): Promise<ProcessReading> {
  let processes = 0;
  let fileDescriptors = 0;
  let sockets = 0;
  let openFilesLimit: number | undefined;
  for (const pid of pids) {
    signal.throwIfAborted();
    const directory = `/proc/${String(pid)}`;
    const names = await unlessGone(readdir(`${directory}/fd`));
    if (names === undefined) continue;
    if (processes === 0) openFilesLimit = softLimit(files.readOnce(`${directory}/limits`));
    processes += 1;
    const looks = names.slice(0, Math.max(looksPerCgroup - fileDescriptors, 0));
    fileDescriptors += names.length;
    for (let from = 0; from < looks.length; from += looksAtOnce) {
      const targets = await Promise.all(
        looks.slice(from, from + looksAtOnce).map((name) => unlessGone(readlink(`${directory}/fd/${name}`))),
      );
      sockets += targets.filter((target) => target?.startsWith("socket:")).length;
    }
  }
  return { processes, fileDescriptors, sockets, openFilesLimit };
}

/** `Max open files  SOFT  HARD  files` */
export function softLimit(limits: string | undefined): number | undefined {
  const soft = /^Max open files\s+(\d+)/m.exec(limits ?? "")?.[1];
  return soft === undefined ? undefined : Number(soft);
}

/** Kernel threads, processes of other owners where this program is not root, and what has ended. */
async function unlessGone<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (hasCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM")) return undefined;
    throw error;
  }
}
