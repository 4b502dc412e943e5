/** Killing what an exec left running, with only what /proc says. */
import { readdir, readFile } from "node:fs/promises";
import { sleep } from "../base/abort.js";
import { ShimError } from "../base/errors.js";

interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly session: number;
  readonly state: string;
}

/** Scans until nothing new appears; a process that forks faster than this is cut off by the limit. */
const scanLimit = 100;

/**
 * Kills `pid` and everything that it started: its descendants, and the members of its session (every exec leads one),
 * which finds children whose parent is gone. They are stopped first and killed only when no new one appears, so that
 * none can fork its way out. Returns false when `pid` is not provably a process of the container.
 */
export async function killProcessTree(containerId: string, pid: number, signal: AbortSignal): Promise<boolean> {
  if (!(await belongsTo(containerId, pid))) return false;
  const found = new Set<number>();
  for (let scan = 0; scan < scanLimit; scan++) {
    signal.throwIfAborted();
    const fresh = treeOf(pid, found, await processes()).filter((entry) => !found.has(entry.pid));
    let stopped = 0;
    for (const entry of fresh) {
      if (!(await belongsTo(containerId, entry.pid))) continue;
      found.add(entry.pid);
      if (send(entry.pid, "SIGSTOP")) stopped++;
    }
    if (stopped === 0) break;
  }
  for (const target of found) {
    if (await belongsTo(containerId, target)) send(target, "SIGKILL");
  }
  await untilGone(containerId, found, signal);
  return true;
}

/** The path of a process's cgroup holds the id of its container, with every driver and cgroup version. */
export async function belongsTo(containerId: string, pid: number): Promise<boolean> {
  if (pid <= 1) return false;
  const text = await readFile(`/proc/${String(pid)}/cgroup`, "utf8").catch(() => "");
  return text.includes(containerId);
}

function treeOf(root: number, known: ReadonlySet<number>, all: readonly ProcessEntry[]): readonly ProcessEntry[] {
  const members = new Set([root, ...known]);
  for (let before = -1; before !== members.size; ) {
    before = members.size;
    for (const entry of all) {
      if (members.has(entry.parent) || entry.session === root) members.add(entry.pid);
    }
  }
  return all.filter((entry) => members.has(entry.pid) && entry.state !== "Z");
}

async function processes(): Promise<readonly ProcessEntry[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const entries = await Promise.all(
    pids.map(async (pid) => parseStat(await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ""))),
  );
  return entries.filter((entry) => entry !== undefined);
}

/** `pid (command) state parent group session …`; the command may hold blanks and parentheses. */
export function parseStat(text: string): ProcessEntry | undefined {
  const end = text.lastIndexOf(")");
  const [state = "", parent, , session] = text.slice(end + 2).split(" ");
  if (end === -1 || session === undefined) return undefined;
  return { pid: Number.parseInt(text, 10), parent: Number(parent), session: Number(session), state };
}

function send(pid: number, name: NodeJS.Signals): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw new ShimError("internal", `send ${name} to process ${String(pid)}: ${String(error)}`, { pid });
  }
}

async function untilGone(containerId: string, pids: ReadonlySet<number>, signal: AbortSignal): Promise<void> {
  for (const pid of pids) {
    for (let state = await stateOf(pid); state !== "" && state !== "Z"; state = await stateOf(pid)) {
      if (!(await belongsTo(containerId, pid))) break;
      await sleep(10, signal);
    }
  }
}

async function stateOf(pid: number): Promise<string> {
  return parseStat(await readFile(`/proc/${String(pid)}/stat`, "utf8").catch(() => ""))?.state ?? "";
}
