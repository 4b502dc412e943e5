/** Checkpoints that are written together: all of them, or none. */
import { mkdir, rmdir } from "node:fs/promises";
import { dirname } from "node:path";
import { ShimError, succeeds } from "../src/lib/errors.js";
import { stageFile, type StagedFile } from "../src/lib/files/atomic-file.js";
import { syncDirectory } from "../src/lib/files/directories.js";
import { fileError } from "../src/lib/files/file-errors.js";
import { unreadable } from "./files-at-rest.js";

export interface NewFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/**
 * Writes all contents under temporary names, then renames them one after the other. While a content cannot be
 * written (disk full, read-only), no file changes. A rename that fails after others succeeded leaves those:
 * each file is whole, the error says how many were changed, and the same call does the rest. `beforeRename`
 * runs before each rename.
 */
export async function writeTogether(
  files: readonly NewFile[],
  beforeRename: (path: string) => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const staged: StagedFile[] = [];
  let renamed = 0;
  try {
    for (const { path, bytes } of files)
      staged.push(await stageFile(path, bytes, { mode: 0o600, temporaryPrefix: ".dockershim-" }));
    for (const file of staged) {
      await beforeRename(file.path);
      await file.commit().catch((error: unknown) => {
        throw fileError("write", file.path, error);
      });
      renamed += 1;
    }
    for (const directory of new Set(files.map(({ path }) => dirname(path)))) await syncDirectory(directory);
  } catch (error) {
    for (const file of staged.slice(renamed)) await file.discard();
    const left = `; ${renamed} of ${files.length} files were written, run the command again for the rest`;
    const failure = unreadable(ShimError.from(error));
    throw renamed === 0 ? failure : new ShimError(failure.kind, failure.message + left, {}, { cause: error });
  }
}

/** Makes the directory with its parents where it is missing; the answer removes what was made, while empty. */
export async function makeDirectory(path: string): Promise<() => Promise<void>> {
  const first = await mkdir(path, { recursive: true, mode: 0o755 }).catch((error: unknown) => {
    throw unreadable(fileError("create directory", path, error));
  });
  return async () => {
    if (first === undefined) return;
    for (let one = path; one.length >= first.length; one = dirname(one)) {
      // Not empty: another program uses it by now.
      if (!(await succeeds(rmdir(one)))) return;
    }
  };
}
