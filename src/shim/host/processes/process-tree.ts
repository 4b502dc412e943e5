/** Killing what an exec left running, with only what /proc says. */
import { sleep } from "../../../lib/abort.js";
import { ShimError } from "../../../lib/errors.js";
import { hasCode } from "../../../lib/files/file-errors.js";
import { Backoff } from "../../../lib/sync/backoff.js";
import { hasEnded, type ProcessStat } from "../../../lib/linux/process-stat.js";
import { findProcessList, listProcesses } from "./container-processes.js";
import { isCgroupOf, ProcFiles } from "./proc-files.js";

export interface ProcessTreeOptions {
  readonly proc?: ProcFiles;
  /** `process.kill` unless given. */
  readonly kill?: (pid: number, signal: "SIGSTOP" | "SIGKILL") => void;
}

/** Doubled after each scan with new processes: one that goes on forking must not keep this one busy. */
const scanPauseMs = { first: 5, longest: 50 };
/** Quiet scans that are proof enough when one does not stop: it hangs in the kernel, or is frozen. */
const maxQuietScans = 20;

/**
 * Kills `pid` and everything that it started: its descendants, and the members of its session (every exec
 * leads one), which finds children whose parent is gone. They are stopped first, and killed when all have
 * stopped and no new one appears, so that none can fork its way out; then this waits until they have ended.
 * What left the session and was adopted by the container's first process before the call is not found.
 * Only processes of the container are touched, by the proof of their cgroup: pids may be used again, and
 * those of an engine in another PID namespace mean something else here. Returns false when there is none. An
 * abort of `signal` ends the wait, but what was found by then is killed all the same. Throws when a process
 * may not be signalled.
 */
export async function killProcessTree(
  containerId: string,
  pid: number,
  signal: AbortSignal,
  options: ProcessTreeOptions = {},
): Promise<boolean> {
  if (pid <= 1 || pid === process.pid) return false;
  const tree = new ProcessTree(containerId, pid, options);
  let found = false;
  while (await tree.kill(signal)) found = true;
  return found;
}

class ProcessTree {
  readonly #proc: ProcFiles;
  readonly #send: NonNullable<ProcessTreeOptions["kill"]>;
  #members = new Map<number, ProcessStat>();
  #refusal: ShimError | undefined;
  /** Where the container's processes are listed; undefined until that is known. */
  #list: string | undefined;
  readonly #backoff = new Backoff(scanPauseMs);
  #pauseMs = this.#backoff.next();

  constructor(
    private readonly containerId: string,
    private readonly root: number,
    { proc = new ProcFiles(), kill = (pid, name) => process.kill(pid, name) }: ProcessTreeOptions,
  ) {
    this.#proc = proc;
    this.#send = kill;
  }

  /** One round; false when it found nothing to kill. */
  async kill(signal: AbortSignal): Promise<boolean> {
    this.#members = new Map();
    this.#resetPause();
    try {
      await this.#stopAll(signal);
    } finally {
      // However it went: nothing may stay behind stopped.
      for (const member of this.#members.values()) {
        if (await this.#isOurs(member)) this.#signal(member.pid, "SIGKILL");
      }
    }
    if (this.#refusal !== undefined) throw this.#refusal;
    this.#resetPause();
    await this.#untilEnded(signal);
    return this.#members.size > 0;
  }

  async #stopAll(signal: AbortSignal): Promise<void> {
    for (let quietScans = 0; quietScans < maxQuietScans; quietScans++) {
      signal.throwIfAborted();
      const startMs = performance.now();
      const candidates = await this.#candidates();
      const tookMs = performance.now() - startMs;
      for (const entry of candidates) {
        if (this.#knows(entry) || !(await this.#isOurs(entry))) continue;
        this.#members.set(entry.pid, entry);
        this.#signal(entry.pid, "SIGSTOP");
        quietScans = -1;
      }
      if (quietScans < 0) this.#slowDown();
      const moving = candidates.some((entry) => this.#knows(entry) && !isHalted(entry));
      if (quietScans >= 0 && !moving) return;
      await sleep(Math.max(this.#pauseMs, tookMs), signal);
    }
  }

  /** The root while it is ours, its session, and the descendants of these and of all members. */
  async #candidates(): Promise<readonly ProcessStat[]> {
    const found = await this.#proc.mapDefined(await this.#pids(), (pid) => this.#proc.stat(pid));
    const all = found.filter(({ pid }) => pid > 1 && pid !== process.pid);
    const root = all.find(({ pid }) => pid === this.root);
    const pids = new Set(this.#members.keys());
    if (root !== undefined && (await this.#isOurs(root))) pids.add(root.pid);
    for (let before = -1; before !== pids.size;) {
      before = pids.size;
      for (const { pid, parent, session } of all)
        if (pids.has(parent) || session === this.root) pids.add(pid);
    }
    return all.filter((entry) => pids.has(entry.pid) && !hasEnded(entry));
  }

  /** The processes in the container's cgroup if it is known, else those of the whole host. */
  async #pids(): Promise<readonly number[]> {
    this.#list ??= await findProcessList(this.containerId, this.root, this.#proc);
    const listed = this.#list === undefined ? undefined : await listProcesses(this.#list);
    return listed ?? this.#proc.pids();
  }

  #resetPause(): void {
    this.#backoff.reset();
    this.#slowDown();
  }

  #slowDown(): void {
    this.#pauseMs = this.#backoff.next();
  }

  #knows({ pid, startTime }: ProcessStat): boolean {
    return this.#members.get(pid)?.startTime === startTime;
  }

  async #isOurs({ pid, startTime }: ProcessStat): Promise<boolean> {
    if (!isCgroupOf(this.containerId, await this.#proc.text(pid, "cgroup"))) return false;
    return (await this.#proc.stat(pid))?.startTime === startTime;
  }

  #signal(pid: number, name: "SIGSTOP" | "SIGKILL"): void {
    try {
      this.#send(pid, name);
    } catch (error) {
      if (hasCode(error, "ESRCH")) return;
      // The others are to be killed nevertheless.
      const message = `send ${name} to process ${pid}: ${String(error)}`;
      this.#refusal ??= new ShimError("internal", message, { pid }, { cause: error });
    }
  }

  async #untilEnded(signal: AbortSignal): Promise<void> {
    for (const { pid, startTime } of this.#members.values()) {
      for (;;) {
        const stat = await this.#proc.stat(pid);
        if (hasEnded(stat) || stat?.startTime !== startTime) break;
        await sleep(this.#pauseMs, signal);
        this.#slowDown();
      }
    }
  }
}

function isHalted(stat: ProcessStat): boolean {
  return /^[Tt]$/.test(stat.state) || hasEnded(stat);
}
