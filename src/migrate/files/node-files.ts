/**
 * The files of a node below a root directory; links are followed as on the node. Nothing is written. Links and directories
 * are read once: who looks again later makes a new one.
 */
import { readlinkSync } from "node:fs";
import { constants, lstat, open } from "node:fs/promises";
import { hostname } from "node:os";
import { isAbsolute, join } from "node:path/posix";
import { messageOf } from "../../lib/errors.js";
import { namesIn } from "../../lib/files/directories.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { readRegularFile } from "../../lib/files/state-files.js";

/** Units and configuration files are far smaller. */
const limitBytes = 1024 * 1024;
/** As in the kernel. */
const linkLimit = 40;

export type FileReading =
  | { readonly kind: "absent" }
  /** `path`: that of the file itself, on the node, after links. */
  | { readonly kind: "read"; readonly path: string; readonly text: string }
  | { readonly kind: "unreadable"; readonly reason: string };

export class NodeFiles {
  readonly #links = new Map<string, Promise<string | undefined>>();
  readonly #names = new Map<string, Promise<readonly string[]>>();

  constructor(readonly root: string) {}

  /** The path on this machine of a path that follows no link. */
  local(path: string): string {
    return join(this.root, path);
  }

  /** The path on the node after all links. Throws for a circle of links. */
  async resolve(path: string): Promise<string> {
    let done: string[] = [];
    const pending = partsOf(path).toReversed();
    let links = 0;
    for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
      if (part === "..") {
        done = done.slice(0, -1);
        continue;
      }
      const target = await this.#linkAt(join("/", ...done, part));
      if (target === undefined) {
        done.push(part);
        continue;
      }
      links += 1;
      if (links > linkLimit) throw new Error("too many symbolic links");
      if (isAbsolute(target)) done = [];
      pending.push(...partsOf(target).toReversed());
    }
    return join("/", ...done);
  }

  /** Never throws. */
  async read(path: string, largestBytes = limitBytes): Promise<FileReading> {
    try {
      const resolved = await this.resolve(path);
      const reading = await readRegularFile(this.local(resolved), largestBytes);
      if (reading.kind === "absent") return { kind: "absent" };
      if (reading.kind === "unfit") return { kind: "unreadable", reason: reading.reason };
      const text = decodeText(reading.bytes);
      return text === undefined
        ? { kind: "unreadable", reason: "is not UTF-8" }
        : { kind: "read", path: resolved, text };
    } catch (error) {
      return { kind: "unreadable", reason: messageOf(error) };
    }
  }

  /** Of the node; empty where another root directory does not tell. */
  async hostName(): Promise<string> {
    const reading = await this.read("/etc/hostname");
    return this.root === "/" ? hostname() : reading.kind === "read" ? reading.text.trim() : "";
  }

  /** Whether the file is machine code; undefined where there is none to look at. */
  async isMachineCode(path: string): Promise<boolean | undefined> {
    try {
      const flags = constants.O_RDONLY | constants.O_NONBLOCK;
      await using file = await open(this.local(await this.resolve(path)), flags);
      const { bytesRead, buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
      return bytesRead === 0 ? undefined : buffer.toString("latin1") === "\u007fELF";
    } catch {
      // Another root directory need not have the programs of its node.
      return undefined;
    }
  }

  /** Sorted; none for a missing directory, and for one that cannot be read. */
  names(path: string): Promise<readonly string[]> {
    return once(this.#names, path, () => this.#namesIn(path));
  }

  async #namesIn(path: string): Promise<readonly string[]> {
    try {
      return [...(await namesIn(this.local(await this.resolve(path))))].sort();
    } catch {
      // What cannot be listed has nothing to report: as root only a broken disk does that.
      return [];
    }
  }

  /** What the last component of the path is, without following it. */
  async kindOf(path: string): Promise<"absent" | "link" | "file" | "directory" | "other"> {
    const parts = partsOf(path);
    try {
      const directory = await this.resolve(join("/", ...parts.slice(0, -1)));
      const status = await lstat(this.local(join(directory, parts.at(-1) ?? "")));
      if (status.isSymbolicLink()) return "link";
      if (status.isFile()) return "file";
      return status.isDirectory() ? "directory" : "other";
    } catch {
      return "absent";
    }
  }

  /** The target of the link at `path`, whose directory may be reached over links. */
  async linkTarget(path: string): Promise<string | undefined> {
    const parts = partsOf(path);
    try {
      const directory = await this.resolve(join("/", ...parts.slice(0, -1)));
      return await this.#linkAt(join(directory, parts.at(-1) ?? ""));
    } catch {
      return undefined;
    }
  }

  #linkAt(path: string): Promise<string | undefined> {
    return once(this.#links, path, () => Promise.resolve(readLink(this.local(path))));
  }
}

/**
 * The target; undefined for what is no link. Synchronous: a path has many parts, most of them no links, and the thread pool
 * takes more CPU time for each than all else here.
 */
function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (error) {
    if (hasCode(error, "EINVAL", "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
}

/** The answer of the first call for a key. */
function once<T>(answers: Map<string, Promise<T>>, key: string, ask: () => Promise<T>): Promise<T> {
  const known = answers.get(key);
  if (known !== undefined) return known;
  const answer = ask();
  answers.set(key, answer);
  return answer;
}

/** Undefined for bytes that are not UTF-8: an edit of such a file would change more than it says. */
export function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function partsOf(path: string): readonly string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}
