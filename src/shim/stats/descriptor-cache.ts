/**
 * Reads files of cgroup file systems and /proc, and keeps their descriptors. Such files are in the kernel's
 * memory: a read waits for no disk and no other process, also when the processes behind them are frozen. So
 * they are read synchronously: 2 µs through a kept descriptor, 10 to 20 µs with open and close, and 100 µs
 * and more through Node.js's thread pool. All readings of 100 pods take 3.5 ms, by requests to the engine 90
 * ms (`npm run bench`).
 */
import { closeSync, constants, openSync, readFileSync, readSync } from "node:fs";
import { hasCode } from "../../lib/files/file-errors.js";

/** Larger than any file of statistics; lists of processes may be longer. */
const bufferBytes = 64 * 1024;
/** Default limit of a list: containers decide how long some lists are. */
const listLimitBytes = 4 * 1024 * 1024;
/** The part of the open files of this program; the rest is for connections. */
const shareOfLimit = 4;
/** Enough for what kubelets ask of 200 pods every ten seconds; the kernel keeps a page or two for each. */
const mostDescriptors = 4_096;

/** Reads, and counts the descriptors that are kept for the next reading. */
export class DescriptorCache {
  readonly #buffer = Buffer.allocUnsafeSlow(bufferBytes);
  #kept = 0;

  constructor(private readonly descriptorLimit = descriptorsToKeep()) {}

  /** Descriptors that are kept. */
  get kept(): number {
    return this.#kept;
  }

  /** A descriptor; undefined when there is no such file. */
  open(path: string): number | undefined {
    try {
      return openSync(path, "r");
    } catch (error) {
      if (isGone(error)) return undefined;
      throw error;
    }
  }

  close(descriptor: number): void {
    closeSync(descriptor);
  }

  /** Whether one more may be kept. After true, the caller gives it back with `giveBack`. */
  keepOne(): boolean {
    if (this.#kept >= this.descriptorLimit) return false;
    this.#kept += 1;
    return true;
  }

  giveBack(descriptor: number): void {
    this.#kept -= 1;
    closeSync(descriptor);
  }

  /**
   * The text from the begin; undefined when its subject is gone or switched off. A list that is longer than
   * `limitBytes` is cut at a line end.
   */
  read(descriptor: number, limitBytes = listLimitBytes): string | undefined {
    try {
      // A statistic comes whole with the first read; lists come in pages, so they end with an empty one.
      const first = readSync(descriptor, this.#buffer, 0, bufferBytes, 0);
      if (first < listPageBytes) return this.#buffer.toString("latin1", 0, first);
      const parts = [this.#buffer.toString("latin1", 0, first)];
      for (let at = first; ;) {
        const more = readSync(descriptor, this.#buffer, 0, bufferBytes, at);
        if (more === 0) return parts.join("");
        parts.push(this.#buffer.toString("latin1", 0, more));
        at += more;
        if (at >= limitBytes) return wholeLines(parts.join(""));
      }
    } catch (error) {
      if (isGone(error)) return undefined;
      throw error;
    }
  }

  readOnce(path: string, limitBytes?: number): string | undefined {
    const descriptor = this.open(path);
    if (descriptor === undefined) return undefined;
    try {
      return this.read(descriptor, limitBytes);
    } finally {
      closeSync(descriptor);
    }
  }
}

/** The kernel hands lists over in pages; a shorter part may still be followed by another one. */
const listPageBytes = 2048;

function wholeLines(text: string): string {
  return text.slice(0, text.lastIndexOf("\n") + 1);
}

function isGone(error: unknown): boolean {
  return hasCode(error, "ENOENT", "ENOTDIR", "ESRCH", "ENODEV", "EOPNOTSUPP", "ENOTSUP");
}

function descriptorsToKeep(): number {
  try {
    const limits = readFileSync("/proc/self/limits", "latin1");
    const soft = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? 1024);
    return Math.min(Math.floor(soft / shareOfLimit), mostDescriptors);
  } catch {
    return 0; // No /proc, no statistics: nothing will be kept.
  }
}

/** The files of one directory. After `close` there are none. */
export class KeptFiles {
  /** Undefined: there is no such file, which is not looked for again. */
  readonly #descriptors = new Map<string, number | undefined>();
  #closed = false;

  constructor(
    private readonly directory: string,
    private readonly files: DescriptorCache,
  ) {}

  /** `keep`: the file stays open for the next time, where there is room for it. */
  text(name: string, { keep }: { readonly keep: boolean }): string | undefined {
    if (this.#closed) return undefined;
    const kept = this.#descriptors.get(name);
    if (kept !== undefined) return this.files.read(kept);
    if (this.#descriptors.has(name)) return undefined;
    const opened = this.files.open(`${this.directory}/${name}`);
    if (opened !== undefined && !(keep && this.files.keepOne())) return this.#readAndClose(opened);
    this.#descriptors.set(name, opened);
    return opened === undefined ? undefined : this.files.read(opened);
  }

  close(): void {
    this.#closed = true;
    for (const descriptor of this.#descriptors.values()) {
      if (descriptor !== undefined) this.files.giveBack(descriptor);
    }
    this.#descriptors.clear();
  }

  #readAndClose(descriptor: number): string | undefined {
    try {
      return this.files.read(descriptor);
    } finally {
      this.files.close(descriptor);
    }
  }
}

export class ProcessDirectory {
  private constructor(
    private readonly descriptor: number,
    private readonly files: DescriptorCache,
    /** Else it is to be closed after this reading. */
    readonly isKept: boolean,
  ) {}

  /**
   * Undefined when there is no such process, or when `prove`, asked after the directory was opened, does not
   * say that the process with this id is the one that is meant.
   */
  static open(
    pid: number,
    files: DescriptorCache,
    prove: () => boolean,
    procRoot = "/proc",
  ): ProcessDirectory | undefined {
    let descriptor: number;
    try {
      descriptor = openSync(`${procRoot}/${pid}`, constants.O_RDONLY | constants.O_DIRECTORY);
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
   * The text of a file, as `net/dev`; undefined when the process has ended. It is opened each time: an open
   * file of a network namespace would keep the namespace alive after its pod.
   */
  text(name: string, limitBytes?: number): string | undefined {
    return this.files.readOnce(`/proc/self/fd/${this.descriptor}/${name}`, limitBytes);
  }

  close(): void {
    if (this.isKept) this.files.giveBack(this.descriptor);
    else this.files.close(this.descriptor);
  }
}
