import { constants, open, type FileHandle } from "node:fs/promises";
import { ShimError } from "../base/errors.js";
import { fileError } from "../base/file-errors.js";

/**
 * Writes in place, no rename: the engine bind-mounts this very inode into every container of the pod, and a new file
 * under the name would be seen by none of them. The file must be there, and be a file.
 */
export async function rewriteInPlace(path: string, content: string): Promise<void> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if (!(await file.stat()).isFile()) {
      throw new ShimError("precondition", `write "${path}": not a regular file`, { path });
    }
    // The content first, then the cut: a reader in between sees the new servers, never an empty file.
    const bytes = Buffer.from(content, "utf8");
    for (let written = 0; written < bytes.length;) {
      written += (await file.write(bytes, written, bytes.length - written, written)).bytesWritten;
    }
    await file.truncate(bytes.length);
  } catch (error) {
    throw fileError("write", path, error);
  } finally {
    await file?.close();
  }
}
