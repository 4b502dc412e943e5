/** Counts the processes of a cgroup, their open files and sockets. */
import { type Dir, opendirSync } from "node:fs";
import { readlink, stat } from "node:fs/promises";
import { hasCode } from "../../lib/files/file-errors.js";
import type { ProcessReading } from "../../domain/resource-reading.js";
import type { DescriptorCache } from "./descriptor-cache.js";

/** Each descriptor must be looked at to tell a socket. Sockets beyond these are not counted. */
const looksPerPod = 10_000;
/** Limit of one call. Pods that use less than an equal part leave more to the others. */
const looksPerCall = 200_000;
const looksAtOnce = 16;
/** Names that are read synchronously at a time. */
const namesAtOnce = 512;

/** The budget of looks at descriptors of one call. */
export class CallLooks {
  #left = looksPerCall;

  /** The share of the next pod, of the pods that are still to be read. */
  forPod(podsLeft: number): PodLooks {
    return new PodLooks(Math.min(looksPerPod, Math.ceil(this.#left / Math.max(podsLeft, 1))), (looks) => {
      this.#left -= looks;
    });
  }
}

export class PodLooks {
  constructor(
    private left: number,
    private readonly onTake: (looks: number) => void,
  ) {}

  /** How many of `wanted` may be looked at. */
  take(wanted: number): number {
    const looks = Math.min(wanted, this.left);
    this.giveBack(-looks);
    return looks;
  }

  giveBack(looks: number): void {
    this.left += looks;
    this.onTake(-looks);
  }
}

/**
 * Processes that end meanwhile do not count. A reused process id does no harm, because nothing but the counts
 * is read. Without looks left, processes count as alive, and descriptors only where the kernel counts them
 * (Linux 6.2 and later).
 */
export async function countProcesses(
  pids: readonly number[],
  files: DescriptorCache,
  looks: PodLooks,
  signal: AbortSignal,
): Promise<ProcessReading> {
  const reading = { processes: 0, fileDescriptors: 0, sockets: 0 };
  let openFilesLimit: number | undefined;
  for (const [index, pid] of pids.entries()) {
    signal.throwIfAborted();
    if (looks.take(1) === 0) {
      reading.processes += pids.length - index;
      break;
    }
    const directory = `/proc/${pid}`;
    const descriptors = await countDescriptors(`${directory}/fd`, looks, signal);
    if (descriptors === undefined) continue;
    if (reading.processes === 0) openFilesLimit = softLimit(files.readOnce(`${directory}/limits`));
    reading.processes += 1;
    reading.fileDescriptors += descriptors.all;
    reading.sockets += descriptors.sockets;
  }
  return { ...reading, openFilesLimit };
}

/** Undefined for what may not be looked at, or has ended. */
async function countDescriptors(
  directory: string,
  looks: PodLooks,
  signal: AbortSignal,
): Promise<{ readonly all: number; readonly sockets: number } | undefined> {
  const opened = unlessGone(() => opendirSync(directory, { bufferSize: namesAtOnce }));
  if (opened === undefined) return undefined;
  try {
    let all = 0;
    let sockets = 0;
    for (;;) {
      const most = looks.take(namesAtOnce);
      if (most === 0) break;
      const names = unlessGone(() => readNames(opened, most)) ?? [];
      looks.giveBack(most - names.length);
      all += names.length;
      sockets += await countSockets(directory, names);
      if (names.length < most) return { all, sockets };
      signal.throwIfAborted();
    }
    // Kernels before Linux 6.2 say 0.
    const { size } = await stat(directory).catch(() => ({ size: 0 }));
    return { all: Math.max(all, size), sockets };
  } finally {
    opened.closeSync();
  }
}

function readNames(directory: Dir, most: number): readonly string[] {
  const names: string[] = [];
  while (names.length < most) {
    const entry = directory.readSync();
    if (entry === null) break;
    names.push(entry.name);
  }
  return names;
}

async function countSockets(directory: string, names: readonly string[]): Promise<number> {
  let sockets = 0;
  for (let from = 0; from < names.length; from += looksAtOnce) {
    const targets = await Promise.all(
      names.slice(from, from + looksAtOnce).map((name) => readlink(`${directory}/${name}`).catch(() => "")),
    );
    sockets += targets.filter((target) => target.startsWith("socket:")).length;
  }
  return sockets;
}

/** `Max open files  SOFT  HARD  files` */
export function softLimit(limits: string | undefined): number | undefined {
  const soft = /^Max open files\s+(\d+)/m.exec(limits ?? "")?.[1];
  return soft === undefined ? undefined : Number(soft);
}

/** Kernel threads, processes of other owners where this program is not root, and what has ended. */
function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    if (hasCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM")) return undefined;
    throw error;
  }
}
