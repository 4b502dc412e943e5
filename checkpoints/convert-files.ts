/** `dockershim checkpoint convert`: checkpoints of one program as files that the other one reads. */
import { join, resolve } from "node:path";
import { ShimError } from "../src/lib/errors.js";
import { fileError } from "../src/lib/files/file-errors.js";
import { readRegularFile } from "../src/lib/files/state-files.js";
import { decodeCheckpoint, encodeCheckpoint, type WrittenFlavour } from "./checkpoint.js";
import type { Flavour } from "./checksum.js";
import { maximumFileBytes } from "./file-format.js";
import { readFilesAtRest, unreadable, type IntactFile } from "./files-at-rest.js";
import { makeDirectory, writeTogether } from "./stage-files.js";

export interface ConvertOptions {
  readonly to: WrittenFlavour;
  /** Undefined: in place. */
  readonly output?: string;
}

export interface ConvertedFile {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  /** The flavour of the file that was read. */
  readonly flavour: Flavour;
  /** False: there was a file of this flavour and content. */
  readonly written: boolean;
}

/** Writes every checkpoint in one flavour. Throws before that when one is corrupt or in the way. */
export async function convertFiles(
  directories: readonly string[],
  { to, output }: ConvertOptions,
): Promise<readonly ConvertedFile[]> {
  const { intact, corrupt } = await readFilesAtRest(directories);
  const [bad] = corrupt;
  if (bad !== undefined) {
    const others = corrupt.length > 1 ? ` (and ${corrupt.length - 1} others)` : "";
    throw new ShimError(
      "precondition",
      `convert ${JSON.stringify(bad.path)}${others}: ${bad.reason}; nothing was changed, ` +
        `use "dockershim checkpoint repair --directory ${bad.directory}" first, or move the file away`,
    );
  }
  const planned = new Map<string, { readonly file: IntactFile; readonly bytes: Uint8Array }>();
  const results: ConvertedFile[] = [];
  for (const file of intact) {
    const path = output === undefined ? file.path : join(resolve(output), file.id);
    const bytes = encodeCheckpoint(file.checkpoint, to);
    const other = planned.get(path);
    if (other !== undefined && !equal(other.bytes, bytes)) throw contradiction(file.path, other.file.path);
    const present = await readPresent(path);
    if (present !== undefined && path !== file.path) {
      const found = decodeCheckpoint(present);
      if (found.kind === "corrupt" || !equal(encodeCheckpoint(found.checkpoint, to), bytes))
        throw contradiction(file.path, path);
    }
    const written = other === undefined && (present === undefined || !equal(present, bytes));
    if (written) planned.set(path, { file, bytes });
    results.push({ id: file.id, from: file.path, to: path, flavour: file.flavour, written });
  }
  const undo = output === undefined ? undefined : await makeDirectory(resolve(output));
  try {
    await writeTogether([...planned].map(([path, { bytes }]) => ({ path, bytes })));
  } catch (error) {
    await undo?.();
    throw error;
  }
  return results;
}

async function readPresent(path: string): Promise<Uint8Array | undefined> {
  try {
    const found = await readRegularFile(path, maximumFileBytes);
    if (found.kind === "read") return found.bytes;
    if (found.kind === "absent") return undefined;
    const next = "nothing was changed, move it away";
    throw new ShimError("precondition", `write ${JSON.stringify(path)}: ${found.reason} is there; ${next}`);
  } catch (error) {
    throw unreadable(fileError("read", path, error));
  }
}

function contradiction(from: string, to: string): ShimError {
  return new ShimError(
    "conflict",
    `convert ${JSON.stringify(from)}: ${JSON.stringify(to)} says something else of this sandbox; ` +
      "nothing was changed, move the wrong one of the two away",
  );
}

function equal(left: Uint8Array, right: Uint8Array): boolean {
  return Buffer.compare(left, right) === 0;
}
