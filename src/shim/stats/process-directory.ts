/**
 * A process's directory below /proc, held open: it stays that process's for ever, also when its id is used again. It
 * counts among the descriptors that are kept, where there is room for it.
 */
import { constants, openSync } from "node:fs";
import { hasCode } from "../lib/files/file-errors.js";
import type { MemoryFiles } from "./memory-files.js";

export class ProcessDirectory {
  private constructor(
    private readonly descriptor: number,
    private readonly files: MemoryFiles,
    /** Else it is to be closed after this reading. */
    readonly isKept: boolean,
  ) {}

  /**
   * Undefined when there is no such process, or when `prove`, asked after the directory was opened, does not say that the
   * process with this id is the one that is meant.
   */
  static open(
    pid: number,
    files: MemoryFiles,
    prove: () => boolean,
    procRoot = "/proc",
  ): ProcessDirectory | undefined {
    let descriptor: number;
    try {
      descriptor = openSync(`${procRoot}/${String(pid)}`, constants.O_RDONLY | constants.O_DIRECTORY);
    } catch (error) {
      if (hasCode(error, "ENOENT", "ESRCH")) return undefined;
      throw error;
    }
    let isProven = false;
    try {
      isProven = prove();
      return isProven ? new ProcessDirectory(descriptor, files, files.keepOne()) : undefined;
    } finally {
      if (!isProven) files.close(descriptor);
    }
  }

  /**
   * The text of a file, as `net/dev`; undefined when the process has ended. It is opened each time: an open file of a
   * network namespace would keep the namespace alive after its pod.
   */
  text(name: string, limitBytes?: number): string | undefined {
    return this.files.readOnce(`/proc/self/fd/${String(this.descriptor)}/${name}`, limitBytes);
  }

  close(): void {
    if (this.isKept) this.files.giveBack(this.descriptor);
    else this.files.close(this.descriptor);
  }
}
