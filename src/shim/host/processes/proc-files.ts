/** Reads /proc. Values of a process that has ended are undefined. */
import { readFileSync } from "node:fs";
import { opendir, readdir, readlink } from "node:fs/promises";
import { hasCode } from "../../../lib/files/file-errors.js";
import { kernelFileLines, readKernelFile } from "../../../lib/linux/kernel-file.js";
import { parseStat, type ProcessStat } from "../../../lib/linux/process-stat.js";

/** Files that are open at once: a host may have more processes than this program may have files. */
const filesAtOnce = 32;
const namesAtOnce = 256;

export class ProcFiles {
  /** `root` differs from /proc in tests. */
  constructor(readonly root = "/proc") {}

  path(pid: number | "self", name: string): string {
    return `${this.root}/${pid}/${name}`;
  }

  async pids(): Promise<readonly number[]> {
    const names = await readdir(this.root);
    return names.filter((name) => /^[1-9]\d*$/.test(name)).map(Number);
  }

  /** Also undefined when this program may not look. */
  text(pid: number | "self", name: string): Promise<string | undefined> {
    return unlessGone(readKernelFile(this.path(pid, name)));
  }

  /** Lines of a long file, some at a time; none without permission. `exhausted` after `limitBytes`. */
  async *lines(
    pid: number | "self",
    name: string,
    limitBytes?: number,
  ): AsyncGenerator<readonly string[], void, void> {
    try {
      yield* kernelFileLines(this.path(pid, name), limitBytes);
    } catch (error) {
      if (!isGone(error)) throw error;
    }
  }

  link(pid: number | "self", name: string): Promise<string | undefined> {
    return unlessGone(readlink(this.path(pid, name)));
  }

  /** The name of the program, cut to 15 bytes by the kernel. */
  async command(pid: number): Promise<string | undefined> {
    return (await this.text(pid, "comm"))?.trimEnd();
  }

  async stat(pid: number): Promise<ProcessStat | undefined> {
    return parseStat((await this.text(pid, "stat")) ?? "");
  }

  async processes(): Promise<readonly ProcessStat[]> {
    return this.mapDefined(await this.pids(), (pid) => this.stat(pid));
  }

  /** The targets of a process's open files with the lowest numbers, `most` at most, as `socket:[123]`. */
  async openFiles(pid: number, most: number): Promise<readonly string[]> {
    const names = (await unlessGone(this.#firstNames(this.path(pid, "fd"), most))) ?? [];
    return this.mapDefined(names, (name) => this.link(pid, `fd/${name}`));
  }

  async #firstNames(directory: string, most: number): Promise<readonly string[]> {
    const names: string[] = [];
    for await (const { name } of await opendir(directory, { bufferSize: namesAtOnce })) {
      if (names.length >= most) break;
      names.push(name);
    }
    return names;
  }

  /** The answers of `look` that are not undefined, in order, a limited number of questions at once. */
  async mapDefined<K, T>(
    keys: readonly K[],
    look: (key: K) => Promise<T | undefined>,
  ): Promise<readonly T[]> {
    const found: T[] = [];
    for (let from = 0; from < keys.length; from += filesAtOnce) {
      const answers = await Promise.all(keys.slice(from, from + filesAtOnce).map(look));
      for (const answer of answers) if (answer !== undefined) found.push(answer);
    }
    return found;
  }
}

/** By the text of `/proc/<pid>/cgroup`: with every cgroup driver and version the path holds the id. */
export function isCgroupOf(containerId: string, procCgroup: string | undefined): boolean {
  return /^[0-9a-f]{64}$/.test(containerId) && procCgroup?.includes(containerId) === true;
}

/** By the directory of a process. Synchronous: files in /proc are in memory. Undefined without such a process. */
export function procCgroup(directory: string): string | undefined {
  try {
    return readFileSync(`${directory}/cgroup`, "utf8");
  } catch {
    return undefined;
  }
}

async function unlessGone<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

function isGone(error: unknown): boolean {
  return hasCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM", "ENOTDIR");
}

export interface Mount {
  /** What of the file system is mounted there. */
  readonly root: string;
  readonly mountPoint: string;
  readonly type: string;
  readonly superOptions: string;
}

/** In the kernel's order; none when it is gone. Not for containers, which decide what theirs says. */
export async function* readMounts(proc: ProcFiles, pid: number | "self"): AsyncGenerator<Mount, void, void> {
  for await (const lines of proc.lines(pid, "mountinfo")) {
    for (const line of lines) {
      const mount = parseMount(line);
      if (mount !== undefined) yield mount;
    }
  }
}

/** Lines are `id parent device root mountPoint options … - type source superOptions`. */
export function parseMount(line: string): Mount | undefined {
  const [left = "", right] = line.split(" - ");
  const [, , , root = "", mountPoint = ""] = left.split(" ");
  const [type = "", , superOptions = ""] = right?.split(" ") ?? [];
  if (right === undefined) return undefined;
  return {
    root: unescape(root),
    mountPoint: unescape(mountPoint),
    type,
    superOptions: unescape(superOptions),
  };
}

/** mountinfo writes blanks, tabs, line feeds and backslashes as three octal digits. */
function unescape(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
