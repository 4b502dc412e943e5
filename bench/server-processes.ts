/** Processes behind Unix sockets, and the CPU time that they use. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";

/** PID 1 holds sockets for services that it starts at the first connection. */
const initPid = 1;
const ticksPerSecond = 100;

export interface Listener {
  /** Where it was bound: servers may bind another name in the same directory first, and rename it. */
  readonly path: string;
  /** Of the file. */
  readonly inode: number;
  readonly pids: readonly number[];
}

/** The rows of `ss -xlpeHO`. */
export function parseListeners(rows: string): readonly Listener[] {
  return rows.split("\n").flatMap((row) => {
    const [, path, users = "", inode] =
      /^\S+\s+LISTEN\s+\d+\s+\d+\s+(\/.*?)\s+\d+\s+\*\s+\d+\s+users:\((.*)\)\s.*\bino:(\d+)/.exec(row) ?? [];
    if (path === undefined) return [];
    const pids = Array.from(users.matchAll(/\bpid=(\d+)/g), ([, pid]) => Number(pid));
    return [{ path, inode: Number(inode), pids: pids.filter((pid) => pid !== initPid) }];
  });
}

/** Empty where iproute2 is missing. */
function listeners(): readonly Listener[] {
  try {
    return parseListeners(execFileSync("ss", ["-xlpeHO"], { encoding: "utf8" }));
  } catch {
    return [];
  }
}

/**
 * The process that listens at a Unix socket. Undefined when there is none, when it belongs to another PID or network
 * namespace, and without iproute2.
 */
export function listenerOf(socket: string, all = listeners()): number | undefined {
  try {
    const { ino } = statSync(socket);
    const directory = realpathSync(dirname(socket));
    // The number of an inode is unique in the file system of the directory.
    return all.find(({ path, inode }) => inode === ino && realpathSync(dirname(path)) === directory)?.pids[0];
  } catch {
    return undefined;
  }
}

/** dockerd, and the containerd that it may not have started itself. Empty when the engine is elsewhere. */
export function engineProcesses(dockerSocket: string): readonly number[] {
  const all = listeners();
  const dockerd = listenerOf(dockerSocket, all);
  if (dockerd === undefined) return [];
  const containerd = all
    .filter(({ path }) => basename(path) === "containerd.sock")
    .flatMap(({ pids }) => pids);
  return [dockerd, ...containerd];
}

function processIds(): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** What /proc/PID/stat says of a process. */
export interface ProcessTimes {
  readonly pid: number;
  readonly parent: number;
  /** User and system time, with those of the children that it has waited for. */
  readonly seconds: number;
}

/** Fields of /proc/PID/stat; the name of the program may contain blanks and parentheses. */
export function parseStat(stat: string): ProcessTimes {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const at = (index: number): number => Number(fields[index]);
  const seconds = (at(11) + at(12) + at(13) + at(14)) / ticksPerSecond;
  return { pid: parseInt(stat, 10), parent: at(1), seconds };
}

/** CPU seconds of `roots` and their descendants so far, with those that have ended and were waited for. */
export function cpuSecondsOfTrees(roots: readonly number[]): number {
  if (roots.length === 0) return NaN;
  const all = processIds().flatMap((pid) => {
    try {
      return [parseStat(readFileSync(`/proc/${String(pid)}/stat`, "latin1"))];
    } catch {
      // It has just ended.
      return [];
    }
  });
  return sumOfTrees(all, roots);
}

/** Each process counts once, also below two of the roots. */
export function sumOfTrees(all: readonly ProcessTimes[], roots: readonly number[]): number {
  const counted = new Set<number>(roots);
  // A child may have a lower PID than its parent: repeated until nothing is added.
  for (let size = -1; size !== counted.size;) {
    size = counted.size;
    for (const { pid, parent } of all) if (counted.has(parent)) counted.add(pid);
  }
  return all.filter(({ pid }) => counted.has(pid)).reduce((sum, { seconds }) => sum + seconds, 0);
}
