/**
 * Which play keeps a pod: the mark in the pod's directory. The last play that was given the pod has it.
 *
 * While a play creates or starts something, the directory says so, too: what is under way cannot be observed.
 * A play that takes the pod waits for that, so that nothing is started twice.
 */
import { randomUUID } from "node:crypto";
import { posix } from "node:path";
import type { HostFiles } from "../node/files.js";
import { type Directories, ownerPath, startingPath } from "../pod-config/pod-paths.js";
import type { PodKey } from "../manifests/manifest.js";
import { type Clock, pause } from "./clock.js";

/** Processes that may keep pods. A mark is the name of a file. */
export interface PlayProcesses {
  /** The mark of this process; undefined where processes cannot be distinguished. */
  readonly own: string | undefined;
  isAlive(mark: string): Promise<boolean>;
  /** For people. */
  describe(mark: string): string;
}

export interface PodOwnerDeps {
  readonly files: Pick<HostFiles, "readFile" | "replaceFile" | "list" | "makeDirectory" | "removeTree">;
  readonly directories: Directories;
  readonly clock: Clock;
  readonly processes: PlayProcesses;
  readonly playId: string;
}

/** The mark of a new play of this process. Other programs can tell from it whether the play goes on. */
export function newPlayId({ own }: Pick<PlayProcesses, "own">): string {
  return own === undefined ? randomUUID() : `${own}.${randomUUID()}`;
}

/** The mark of the process of a play; undefined where it is not known. */
export function processOf(playId: string): string | undefined {
  const [mark, id] = playId.split(".");
  return id === undefined ? undefined : mark;
}

/** What another play has done with a pod. */
export type PodLoss = "taken over" | "removed";

const limitBytes = 1024;
const pollMs = 50;
/** In place of the mark of a process that lives, but waits no longer for what it has asked for. */
const abandoned = "abandoned";

export class PodOwner {
  #isMarked = false;
  #unfinished: readonly string[] = [];

  constructor(private readonly deps: PodOwnerDeps) {}

  /** Whether this play has marked the pod as its own. */
  get isMarked(): boolean {
    return this.#isMarked;
  }

  /** Resolves when no other play starts something of the pod; `onWait` gets its process. True: observe again. */
  async mark(
    key: Pick<PodKey, "uid">,
    onWait: (process: string) => void,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { files, directories, clock, processes, playId } = this.deps;
    const path = ownerPath(directories, key);
    const before = await files.readFile(path, limitBytes);
    // No play outlives a power cut, so that its mark need not.
    await files.replaceFile(path, playId, { flush: "never" });
    this.#isMarked = true;
    let hasWaited = false;
    for (;;) {
      signal.throwIfAborted();
      const marks = await files.list(startingPath(directories, key));
      const alive: string[] = [];
      for (const mark of marks) if (await processes.isAlive(mark)) alive.push(mark);
      this.#unfinished = marks;
      const [other] = alive;
      if (other === undefined) break;
      if (!hasWaited) onWait(processes.describe(other));
      hasWaited = true;
      await pause(pollMs, clock, signal);
    }
    return hasWaited || (before !== undefined && before !== playId);
  }

  /** `work` starts something, before whose end no other play acts. `isUnfinished`: an earlier start may go on. */
  async starting<T>(
    key: Pick<PodKey, "uid">,
    { check, signal }: { readonly check: () => Promise<void>; readonly signal: AbortSignal },
    work: (isUnfinished: boolean) => Promise<T>,
  ): Promise<T> {
    const { files, directories, processes } = this.deps;
    await check();
    if (processes.own === undefined) return work(false);
    const directory = startingPath(directories, key);
    const own = posix.join(directory, processes.own);
    await files.makeDirectory(own);
    let hasAsked = false;
    try {
      // The mark of another play is seen here, or that play sees this one.
      await check();
      hasAsked = true;
      const result = await work(this.#unfinished.length > 0);
      for (const mark of this.#unfinished) await files.removeTree(posix.join(directory, mark));
      this.#unfinished = [];
      return result;
    } catch (error) {
      // A check that fails has ended the loop, and maybe removed the pod.
      if (hasAsked && signal.aborted && this.#isMarked)
        await files.makeDirectory(posix.join(directory, abandoned));
      throw error;
    } finally {
      await files.removeTree(own);
    }
  }

  /** The next turn of the loop marks the pod again. */
  forget(): void {
    this.#isMarked = false;
  }

  /** What has become of a pod that this play has marked: the mark of another play, or none. */
  async loss(key: Pick<PodKey, "uid">): Promise<PodLoss | undefined> {
    const { files, directories, playId } = this.deps;
    if (!this.#isMarked) return undefined;
    const owner = await files.readFile(ownerPath(directories, key), limitBytes);
    // It may have been given to this play again meanwhile.
    if (owner === playId || !this.isMarked) return undefined;
    return owner === undefined ? "removed" : "taken over";
  }
}
