/** Wake-ups when the engine writes to a log file or renames it, at no cost while it does not. */
import { watch, type FSWatcher } from "node:fs";

/** Where the kernel has no watch left, one looks instead. */
const pollMs = 1_000;

export class DirectoryWatch {
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly directory: string,
    /** Names of other files in the directory do not count. */
    private readonly prefix: string,
    private readonly onEvent: (event: { readonly mayHaveRotated: boolean }) => void,
  ) {}

  start(): void {
    if (this.#watcher !== undefined || this.#timer !== undefined) return;
    try {
      const watcher = watch(this.directory, { persistent: false }, (type, name) => {
        if (name?.startsWith(this.prefix) === false) return;
        this.onEvent({ mayHaveRotated: type === "rename" || name === null });
      });
      this.#watcher = watcher;
      watcher.on("error", () => {
        this.stop();
        this.#poll();
      });
    } catch {
      // ENOSPC, EMFILE: other programs hold all watches that the kernel gives.
      this.#poll();
    }
  }

  stop(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #poll(): void {
    this.#timer = setInterval(() => {
      this.onEvent({ mayHaveRotated: true });
    }, pollMs);
    this.#timer.unref();
  }
}
