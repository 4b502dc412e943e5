/** Writes a bundle as a new file for its owner alone. */
import { open, rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { pack } from "tar-stream";
import { fileError } from "../../lib/files/file-errors.js";
import type { BundleEntry } from "./collect.js";

/** Never over a file that is there. After a failure there is none. */
export async function writeBundle(path: string, entries: readonly BundleEntry[], at: Date): Promise<void> {
  const tar = pack();
  for (const { name, text } of entries)
    tar.entry({ name: `dockershim-bundle/${name}`, mode: 0o600, mtime: at }, text);
  tar.finalize();
  const failed = (error: unknown): never => {
    throw fileError("write", path, error);
  };
  const file = await open(path, "wx", 0o600).catch(failed);
  try {
    await pipeline(tar, createGzip(), file.createWriteStream());
  } catch (error) {
    await rm(path, { force: true });
    failed(error);
  }
}
