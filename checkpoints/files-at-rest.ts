/** The files of checkpoint directories, read as they lie there. Nothing is moved, removed or written. */
import { lstat, opendir } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { messageOf, ShimError } from "../src/lib/errors.js";
import { fileError, hasCode } from "../src/lib/files/file-errors.js";
import { isFileKey, readRegularFile } from "../src/lib/files/state-files.js";
import type { PodSandboxCheckpoint } from "../src/shim/ports/checkpoint-store.js";
import { decodeCheckpoint } from "./checkpoint.js";
import type { Flavour } from "./checksum.js";
import { maximumFileBytes } from "./file-format.js";

interface File {
  readonly directory: string;
  /** Its name: the id of the sandbox, unless the file is corrupt. */
  readonly id: string;
  readonly path: string;
}

export interface IntactFile extends File {
  readonly checkpoint: PodSandboxCheckpoint;
  readonly flavour: Flavour;
}

export interface CorruptFileAtRest extends File {
  readonly reason: string;
  /** What the file says, where the checksum alone is wrong. */
  readonly content?: PodSandboxCheckpoint;
  /** Of a version that this release does not know. */
  readonly isLater?: true;
}

export interface FilesAtRest {
  /** By directory, then by id. */
  readonly intact: readonly IntactFile[];
  readonly corrupt: readonly CorruptFileAtRest[];
}

/** More than any node has: the engine would not start so many sandboxes. */
export const maximumFiles = 20_000;
/** Limit for all files together. */
const maximumTotalBytes = 64 * 1024 * 1024;

/**
 * All files that dockershim would take for checkpoints: those without a leading dot. Throws `precondition`
 * with the path and the next step when a directory is missing or cannot be read, and `exhausted` when there
 * is more in them than fits into memory.
 */
export async function readFilesAtRest(directories: readonly string[]): Promise<FilesAtRest> {
  const intact: IntactFile[] = [];
  const corrupt: CorruptFileAtRest[] = [];
  let bytes = 0;
  for (const directory of new Set(directories.map((one) => resolve(one)))) {
    for (const id of await checkpointNames(directory)) {
      const path = join(directory, id);
      const file = { directory, id, path };
      if (!isFileKey(id)) {
        corrupt.push({ ...file, reason: "the name cannot be the id of a sandbox" });
        continue;
      }
      const read = await readRegularFile(path, maximumFileBytes).catch((error: unknown) => {
        throw unreadable(error);
      });
      // Removed since the directory was listed.
      if (read.kind === "absent") continue;
      if (read.kind === "unfit") {
        corrupt.push({ ...file, reason: read.reason });
        continue;
      }
      bytes += read.bytes.length;
      if (bytes > maximumTotalBytes) throw tooMuch(directory, `more than ${maximumTotalBytes} bytes`);
      const found = decodeCheckpoint(read.bytes);
      if (found.kind === "checkpoint") {
        intact.push({ ...file, checkpoint: found.checkpoint, flavour: found.flavour });
      } else {
        const { kind: _, ...why } = found;
        corrupt.push({ ...file, ...why });
      }
    }
  }
  return { intact, corrupt };
}

async function checkpointNames(directory: string): Promise<readonly string[]> {
  const names: string[] = [];
  try {
    for await (const { name } of await opendir(directory)) {
      if (name.startsWith(".")) continue;
      names.push(name);
      if (names.length > maximumFiles) throw tooMuch(directory, `more than ${maximumFiles} files`);
    }
  } catch (error) {
    throw unreadable(fileError("list", directory, error));
  }
  if (names.includes("sandbox") && (await isDirectory(join(directory, "sandbox"))))
    throw new ShimError(
      "precondition",
      `list ${JSON.stringify(directory)}: a state directory, whose checkpoints are in "sandbox"; ` +
        `use --directory ${join(directory, "sandbox")}`,
    );
  return names.sort();
}

async function isDirectory(path: string): Promise<boolean> {
  return lstat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
}

function tooMuch(directory: string, what: string): ShimError {
  const next = "it is not a checkpoint directory, or has to be cleaned up by hand first";
  return new ShimError("exhausted", `read ${JSON.stringify(directory)}: ${what}; ${next}`);
}

/** The error of a file or directory that the caller named, with what to do about it. */
export function unreadable(error: unknown): ShimError {
  const cause = error instanceof ShimError ? (error.cause ?? error) : error;
  const next = hasCode(cause, "ENOENT", "ENOTDIR")
    ? "; name the directory of the checkpoints with --directory, as /var/lib/cri-dockerd/sandbox"
    : hasCode(cause, "EACCES", "EPERM")
      ? "; run the command as root"
      : "";
  // Not a bug of this program, which is what `internal` stands for.
  const kind = error instanceof ShimError && error.kind !== "internal" ? error.kind : "precondition";
  return new ShimError(kind, `${messageOf(error)}${next}`, {}, { cause: error });
}

/** Where a bad file of a checkpoint directory is kept: beside it, as this program does itself. */
export function quarantineOf(directory: string): string {
  return join(dirname(directory), "quarantine");
}

/** The name by which people know a flavour. */
export function flavourName(flavour: Flavour): string {
  const names: Readonly<Record<Flavour, string>> = {
    dockershim: "dockershim",
    criDockerd: "cri-dockerd",
    withoutHostIp: "dockershim 1.13 or older",
    wholeFile: "dockershim 1.10 or older",
    wholeFileWithoutHostNetwork: "dockershim 1.7 or older",
    wholeFileAdler32: "dockershim 1.6 or older",
  };
  return names[flavour];
}

/** Whether a directory is that of cri-dockerd by its name; every other one is dockershim's. */
export function isCriDockerds(directory: string): boolean {
  return basename(dirname(directory)) === "cri-dockerd";
}
