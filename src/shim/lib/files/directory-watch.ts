/** Hints that something in a directory has changed. */
import { watch, type FSWatcher } from "node:fs";
import { stat } from "node:fs/promises";

/** Calls `onChange` at every event in `directory`; the returned function ends it. Throws when there is none to watch. */
export type WatchDirectory = (directory: string, onChange: () => void) => () => void;

export const watchWithKernel: WatchDirectory = (directory, onChange) => {
  const watcher: FSWatcher = watch(directory, { persistent: false }, onChange);
  // Whatever ails it, a poll sees what it misses.
  watcher.on("error", onChange);
  return () => watcher.close();
};

/** A watch that is set up again when the directory was removed, made or replaced. */
export class DirectoryWatch {
  #close: (() => void) | undefined;
  #identity: string | undefined;

  constructor(
    private readonly directory: string,
    private readonly onChange: () => void,
    private readonly watchDirectory: WatchDirectory,
  ) {}

  /** To be called now and then: watches the directory that is there now. A directory that is not is watched later. */
  async renew(): Promise<void> {
    const identity = await identityOf(this.directory);
    if (identity === this.#identity && (identity === undefined || this.#close !== undefined)) return;
    this.close();
    this.#identity = identity;
    if (identity === undefined) return;
    try {
      this.#close = this.watchDirectory(this.directory, this.onChange);
    } catch {
      // Removed just now, or the kernel has no watch to spare: the caller polls anyway.
      this.#close = undefined;
    }
  }

  close(): void {
    this.#close?.();
    this.#close = undefined;
  }
}

async function identityOf(directory: string): Promise<string | undefined> {
  const status = await stat(directory, { bigint: true }).catch(() => undefined);
  return status === undefined ? undefined : `${String(status.dev)}:${String(status.ino)}`;
}
