/** What a directory tree takes on disk, counted as `du` does, at a pace that leaves the node to its pods. */
import { constants, type Stats } from "node:fs";
import { lstat, open, opendir } from "node:fs/promises";
import { sleep } from "../base/abort.js";
import { hasCode } from "../base/file-errors.js";
import { nowNanoseconds } from "../base/time.js";
import type { LayerUsage } from "../ports/stats.js";

/** The unit of `blocks` in stat, whatever the file system's own is. */
const blockBytes = 512;
/** Entries between two looks at the clock. */
const batchEntries = 200;
/** What is in the tree belongs to the container: it must not make this program remember without end. */
const mostPending = 100_000;
const mostLinkedFiles = 100_000;

export interface PaceOptions {
  /** At most so many entries are looked at in a second. */
  readonly entriesPerSecond: number;
  readonly now?: () => number;
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

interface Directory {
  readonly path: string;
  /** As seen when its entry was looked at. */
  readonly device: number;
  readonly inode: number;
}

/**
 * Undefined when the directory is gone. Other file systems are left out, and links are never followed, also when the
 * container puts one in the place of a directory meanwhile. What vanishes during the walk does not count. A tree that is
 * too wide to be remembered is counted as far as that goes.
 */
export async function walkLayer(
  root: string,
  pace: Pace,
  signal: AbortSignal,
): Promise<LayerUsage | undefined> {
  const top = await lookAt(root);
  if (top?.isDirectory() !== true) return undefined;
  const steps = pace.begin();
  const linked = new Set<number>();
  const pending: Directory[] = [{ path: root, device: top.dev, inode: top.ino }];
  let usedBytes = top.blocks * blockBytes;
  let inodes = 1;
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    for await (const { path, held } of entriesOf(next)) {
      await steps.next(signal);
      const entry = await lookAt(held);
      if (entry === undefined || entry.dev !== top.dev) continue;
      if (entry.nlink > 1 && !entry.isDirectory()) {
        if (linked.has(entry.ino)) continue;
        if (linked.size < mostLinkedFiles) linked.add(entry.ino);
      }
      usedBytes += entry.blocks * blockBytes;
      inodes += 1;
      if (entry.isDirectory() && pending.length < mostPending) {
        pending.push({ path, device: entry.dev, inode: entry.ino });
      }
    }
  }
  return { timestamp: nowNanoseconds(), usedBytes, inodes };
}

interface Entry {
  readonly path: string;
  /** Leads through the open directory, whatever is put in the place of a part of `path`; of use until the next entry. */
  readonly held: string;
}

/** The entries of the very directory that was looked at before; none when something else is in its place. */
async function* entriesOf({ path, device, inode }: Directory): AsyncGenerator<Entry> {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    try {
      const opened = await handle.stat();
      if (opened.dev !== device || opened.ino !== inode) return;
      const directory = `/proc/self/fd/${String(handle.fd)}`;
      for await (const { name } of await opendir(directory, { bufferSize: batchEntries })) {
        yield { path: `${path}/${name}`, held: `${directory}/${name}` };
      }
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (!hasCode(error, "ENOENT", "ENOTDIR", "ELOOP", "ENAMETOOLONG")) throw error;
  }
}

async function lookAt(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR", "ELOOP", "ENAMETOOLONG")) return undefined;
    throw error;
  }
}

/** The rate of all walks that share it: those that go on at once take turns. */
export class Pace {
  readonly #now: () => number;
  readonly #pause: (ms: number, signal: AbortSignal) => Promise<void>;
  /** When what was looked at so far is paid for. */
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
