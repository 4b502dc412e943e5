/** The disk usage of a directory tree, counted as `du` does, at a limited rate. */
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, opendir } from "node:fs/promises";
import { sleep } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { nowNanoseconds } from "../../lib/time.js";
import type { LayerUsage } from "../ports/stats.js";

/** The unit of `blocks` in stat, whatever the file system's own is. */
const blockBytes = 512;
/** Entries between two looks at the clock. */
const batchEntries = 200;
/** The container decides what is in the tree: the memory of a walk must have a limit. */
const mostPending = 100_000;
const mostLinkedFiles = 100_000;
/** Directories that stay open at the top of the tree, and above the one that is read. */
const heldLevels = 32;
/** The bytes of a name, one character each: a name need not be UTF-8. */
const nameEncoding = "latin1";
const ascii = /^[ -~]*$/;

export interface PaceOptions {
  /** At most so many entries are looked at in a second. */
  readonly entriesPerSecond: number;
  readonly now?: () => number;
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

export interface MeasuredLayer extends LayerUsage {
  /** Why not everything was counted: the size is then a lower bound. */
  readonly shortfall?: string | undefined;
}

/**
 * Undefined when the directory is gone. Other file systems are left out, and links are never followed, also
 * when the container puts one in the place of a directory meanwhile. What vanishes during the walk does not
 * count. When `signal` aborts, or a tree is too wide or too deep to be remembered, what was counted until
 * then is answered with a shortfall.
 */
export async function walkLayer(
  root: string,
  pace: Pace,
  signal: AbortSignal,
  most = mostPending,
): Promise<MeasuredLayer | undefined> {
  const top = await lookAt(root);
  if (top?.isDirectory() !== true) return undefined;
  const walk = new LayerWalk(top, pace.begin(), signal, most);
  try {
    await walk.run(root);
  } catch (error) {
    if (!signal.aborted) throw error;
    walk.shortfall = messageOf(signal.reason);
  } finally {
    await walk.close();
  }
  const { usedBytes, inodes, shortfall } = walk;
  return { timestamp: nowNanoseconds(), usedBytes, inodes, shortfall };
}

/** A directory that was read, with those below it that were not. */
interface Level {
  readonly inode: number;
  /** Undefined when it was closed: the way back leads through the parent of one below it. */
  handle: FileHandle | undefined;
  readonly pending: Entry[];
}

interface Entry {
  readonly name: string;
  readonly inode: number;
}

/**
 * Goes from one open directory to the next, never by a path from the top: the container can make paths that
 * are longer than the kernel takes.
 */
class LayerWalk {
  usedBytes: number;
  inodes = 1;
  shortfall: string | undefined;
  readonly #levels: Level[] = [];
  readonly #linked = new Set<number>();
  readonly #device: number;
  #remembered = 0;

  constructor(
    private readonly top: Stats,
    private readonly steps: ReturnType<Pace["begin"]>,
    private readonly signal: AbortSignal,
    private readonly most: number,
  ) {
    this.#device = top.dev;
    this.usedBytes = top.blocks * blockBytes;
  }

  async run(root: string): Promise<void> {
    await this.#enter(root, this.top.ino);
    for (let level = this.#levels.at(-1); level !== undefined; level = this.#levels.at(-1)) {
      const next = level.pending.pop();
      if (next === undefined) {
        await this.#leave();
      } else {
        this.#remembered -= 1;
        if (level.handle !== undefined) await this.#enter(below(level.handle, next.name), next.inode);
      }
    }
  }

  async close(): Promise<void> {
    for (const { handle } of this.#levels) await handle?.close();
  }

  /** Reads the directory of that inode, and nothing when another file is in its place. */
  async #enter(path: string | Buffer, inode: number): Promise<void> {
    const handle = await this.#open(path, inode);
    if (handle === undefined) return;
    const level: Level = { inode, handle, pending: [] };
    this.#levels.push(level);
    this.#remembered += 1;
    await this.#read(handle, level.pending);
    const passed = this.#levels[this.#levels.length - 1 - heldLevels];
    if (passed === undefined || this.#levels.length <= 2 * heldLevels) return;
    await passed.handle?.close();
    passed.handle = undefined;
  }

  async #read(handle: FileHandle, pending: Entry[]): Promise<void> {
    const options = { encoding: nameEncoding, bufferSize: batchEntries } as const;
    for await (const { name } of await opendir(below(handle, "."), options)) {
      await this.steps.next(this.signal);
      const entry = await lookAt(below(handle, name));
      if (entry === undefined || entry.dev !== this.#device) continue;
      if (entry.nlink > 1 && !entry.isDirectory()) {
        if (this.#linked.has(entry.ino)) continue;
        if (this.#linked.size < mostLinkedFiles) this.#linked.add(entry.ino);
      }
      this.usedBytes += entry.blocks * blockBytes;
      this.inodes += 1;
      if (!entry.isDirectory()) continue;
      if (this.#remembered >= this.most) {
        this.shortfall = `more than ${this.most} directories wait to be looked into`;
      } else {
        this.#remembered += 1;
        pending.push({ name, inode: entry.ino });
      }
    }
  }

  /** Back to the directory above, which is opened again when it was closed. */
  async #leave(): Promise<void> {
    const left = this.#levels.pop();
    const above = this.#levels.at(-1);
    this.#remembered -= 1;
    try {
      if (above === undefined || above.handle !== undefined) return;
      const parent = left?.handle === undefined ? undefined : below(left.handle, "..");
      above.handle = parent === undefined ? undefined : await this.#open(parent, above.inode);
      if (above.handle === undefined && above.pending.length > 0) this.#giveUp(above);
    } finally {
      await left?.handle?.close();
    }
  }

  #giveUp(level: Level): void {
    this.shortfall = "a directory was moved away meanwhile";
    this.#remembered -= level.pending.length;
    level.pending.length = 0;
  }

  /** Undefined when it is another one, or gone. */
  async #open(path: string | Buffer, inode: number): Promise<FileHandle | undefined> {
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
    const handle = await unlessGone(open(path, flags));
    if (handle === undefined) return undefined;
    let isSame = false;
    try {
      const opened = await handle.stat();
      isSame = opened.dev === this.#device && opened.ino === inode;
    } finally {
      if (!isSame) await handle.close();
    }
    return isSame ? handle : undefined;
  }
}

/**
 * The path of a name in the open directory: it stays right when a part of the directory's path is replaced.
 */
function below({ fd }: FileHandle, name: string): string | Buffer {
  const path = `/proc/self/fd/${fd}/${name}`;
  // Most names are ASCII, and strings cost less.
  return ascii.test(name) ? path : Buffer.from(path, nameEncoding);
}

function lookAt(path: string | Buffer): Promise<Stats | undefined> {
  return unlessGone(lstat(path));
}

async function unlessGone<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR", "ELOOP")) return undefined;
    throw error;
  }
}

/** The rate of all walks that share it; concurrent ones take turns. */
export class Pace {
  readonly #now: () => number;
  readonly #pause: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Until then the entries that were counted use up the rate. */
  #paidAtMs = -Infinity;

  constructor(private readonly options: PaceOptions) {
    this.#now = options.now ?? (() => performance.now());
    this.#pause = options.pause ?? sleep;
  }

  /** Of one walk: `next` waits as often as needed to keep to the rate. */
  begin(): { readonly next: (signal: AbortSignal) => Promise<void> } {
    let steps = 0;
    let sinceMs = this.#now();
    return {
      next: async (signal) => {
        signal.throwIfAborted();
        steps += 1;
        if (steps < batchEntries) return;
        this.#paidAtMs = Math.max(this.#paidAtMs, sinceMs) + (steps / this.options.entriesPerSecond) * 1000;
        const restMs = this.#paidAtMs - this.#now();
        if (restMs > 0) await this.#pause(restMs, signal);
        steps = 0;
        sinceMs = this.#now();
      },
    };
  }
}
