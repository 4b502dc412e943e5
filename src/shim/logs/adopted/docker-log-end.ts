/** Where Docker's log of a container ends now, and where a stretch of it begins that is not too long. */
import { open } from "node:fs/promises";
import { sleep } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { fileError } from "../../lib/files/file-errors.js";
import type { ReaderPosition } from "../file/json-file-reader.js";
import { longestEntryBytes } from "../log-source.js";
import { identityOf, longestLineBytes } from "../file/rotated-files.js";
import type { RotatedFiles } from "../file/rotated-files.js";

const newline = 0x0a;
const chunkBytes = 64 * 1024;
/** Docker rotates in order to write: the new file has its first entry a moment later. */
const looks = 10;
const pauseMs = 20;

/** Behind the last whole entry of the newest file. `unavailable` when that is still to come. */
export async function endOfLog(path: string, files: RotatedFiles): Promise<ReaderPosition> {
  try {
    for (let look = 1; look <= looks; look += 1) {
      const end = await endOfFile(path);
      if (end !== undefined) return end;
      // Nothing was written so far.
      if ((await files.count()) <= 1) return { file: "", offset: 0 };
      await sleep(pauseMs);
    }
  } catch (error) {
    throw fileError("look for the end of the engine's log", path, error);
  }
  throw new ShimError("unavailable", `the engine is about to rotate its log "${path}"`, { path });
}

/** Undefined when no entry is whole. */
async function endOfFile(path: string): Promise<ReaderPosition | undefined> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const head = Buffer.alloc(Math.min(size, longestLineBytes));
    const { bytesRead } = await file.read(head, 0, head.length, 0);
    const identity = identityOf(head.subarray(0, bytesRead));
    if (identity === "") return undefined;
    const chunk = Buffer.alloc(chunkBytes);
    for (let end = size; end > 0 && size - end < longestEntryBytes;) {
      const start = Math.max(0, end - chunkBytes);
      const { bytesRead: read } = await file.read(chunk, 0, end - start, start);
      const last = chunk.subarray(0, read).lastIndexOf(newline);
      if (last >= 0) return { file: identity, offset: start + last + 1 };
      end = start;
    }
    return undefined;
  } finally {
    await file.close();
  }
}
