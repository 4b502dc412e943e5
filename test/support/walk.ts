/** Everything below a directory, to see whether anything has changed there. */
import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";

/** `directory` or `file`, path, size, times, mode and target of a link; a missing directory has nothing. Follows no link. */
export async function walk(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  const lines = await Promise.all(
    entries.map(async (entry) => {
      const path = join(directory, entry.name);
      const { size, mtimeMs, ctimeMs, mode } = await lstat(path);
      const target = entry.isSymbolicLink() ? await readlink(path) : "";
      const kind = entry.isDirectory() ? "directory" : "file";
      const line = [kind, path, size, mtimeMs, ctimeMs, mode, target].join(" ");
      return entry.isDirectory() ? [line, ...(await walk(path))] : [line];
    }),
  );
  return lines.flat().sort();
}
