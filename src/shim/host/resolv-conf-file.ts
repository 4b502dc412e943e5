import { open } from "node:fs/promises";
import { ShimError } from "../base/errors.js";

/**
 * Writes in place: truncate and write, no rename. The engine bind-mounts this very inode into every container of the
 * pod; a new file under the name would be seen by none of them.
 */
export async function rewriteInPlace(path: string, content: string): Promise<void> {
  let file;
  try {
    file = await open(path, "r+");
  } catch (error) {
    throw new ShimError("unavailable", `resolv.conf "${path}" cannot be opened: ${String(error)}`, { path }, { cause: error });
  }
  try {
    // The content first, then the cut: a reader in between sees the new servers, never an empty file.
    const bytes = Buffer.from(content, "utf8");
    await file.write(bytes, 0, bytes.length, 0);
    await file.truncate(bytes.length);
  } finally {
    await file.close();
  }
}
