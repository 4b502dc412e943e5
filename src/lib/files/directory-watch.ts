/** Notices changes in a directory by events of the kernel. */
import type { EventEmitter } from "node:events";
import { watch } from "node:fs";
import { stat } from "node:fs/promises";

/** `rename`: a file may have been made, removed or renamed. `change`: only the content of one changed. */
export type DirectoryChange = "rename" | "change";

/** The part of `fs.watch` that is used. */
export type WatchDirectory = (
  directory: string,
  options: { readonly persistent: false },
  listener: (type: string, name: string | null) => void,
) => Watcher;

interface Watcher extends EventEmitter {
  close(): void;
}

export interface DirectoryWatchOptions {
  readonly onChange: (change: DirectoryChange) => void;
  /** Changes of files whose names begin otherwise are not reported. */
  readonly prefix?: string;
  /** How often to report a change while the kernel cannot watch. Callers that poll anyway leave it out. */
  readonly pollMs?: number;
  /** For tests. */
  readonly watchDirectory?: WatchDirectory;
}

export class DirectoryWatch {
  #watcher: Watcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Identity of the directory at the last `renew`. */
  #identity: string | undefined;

  constructor(
    private readonly directory: string,
    private readonly options: DirectoryWatchOptions,
  ) {}

  /** Does nothing while it is started. */
  start(): void {
    if (this.#watcher !== undefined || this.#timer !== undefined) return;
    const { onChange, prefix = "", watchDirectory = watch } = this.options;
    try {
      const watcher = watchDirectory(this.directory, { persistent: false }, (type, name) => {
        if (name?.startsWith(prefix) === false) return;
        onChange(type === "rename" || name === null ? "rename" : "change");
      });
      this.#watcher = watcher;
      watcher.on("error", () => {
        this.stop();
        this.#poll();
        onChange("rename");
      });
    } catch {
      // The directory is missing, or other programs hold all watches that the kernel gives (ENOSPC, EMFILE).
      this.#poll();
    }
  }

  /** Starts, and starts anew after the directory was replaced. To be called from time to time. */
  async renew(): Promise<void> {
    const identity = await identityOf(this.directory);
    if (identity !== this.#identity) this.stop();
    this.#identity = identity;
    if (identity !== undefined) this.start();
  }

  stop(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #poll(): void {
    const { onChange, pollMs } = this.options;
    if (pollMs === undefined) return;
    this.#timer = setInterval(() => {
      onChange("rename");
    }, pollMs);
    this.#timer.unref();
  }
}

async function identityOf(directory: string): Promise<string | undefined> {
  const status = await stat(directory, { bigint: true }).catch(() => undefined);
  return status === undefined ? undefined : `${status.dev}:${status.ino}`;
}
