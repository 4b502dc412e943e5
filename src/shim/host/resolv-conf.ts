/** The resolv.conf of a sandbox, which the engine has made. */
import { constants, type FileHandle, open } from "node:fs/promises";
import { ShimError } from "../../lib/errors.js";
import { fileError } from "../../lib/files/file-errors.js";

/**
 * Writes in place, no rename: the engine bind-mounts this very inode into every container of the pod, and a
 * new file under the name would be seen by none of them. The file must be there, and be a file. False, and
 * nothing is written, when it has this content already.
 */
export async function rewriteInPlace(path: string, content: string): Promise<boolean> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const status = await file.stat();
    if (!status.isFile()) {
      throw new ShimError("precondition", `write "${path}": not a regular file`, { path });
    }
    const bytes = Buffer.from(content, "utf8");
    if (status.size === bytes.length && (await has(file, bytes))) return false;
    // The content first, then the cut: a reader in between sees the new servers, never an empty file.
    for (let written = 0; written < bytes.length;) {
      written += (await file.write(bytes, written, bytes.length - written, written)).bytesWritten;
    }
    await file.truncate(bytes.length);
    return true;
  } catch (error) {
    throw fileError("write", path, error);
  } finally {
    await file?.close();
  }
}

async function has(file: FileHandle, bytes: Buffer): Promise<boolean> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes.length), 0, bytes.length, 0);
  return bytesRead === bytes.length && buffer.equals(bytes);
}
