/** Tar files as bytes that depend on nothing but what they hold. */
import { pack } from "tar-stream";

/** A file, directory or symbolic link in a tar. */
export type ArchiveEntry = {
  /** Relative to the root of the archive; leading slashes are dropped. */
  readonly path: string;
  /** Permission bits, setuid and the like included: `0o755`. */
  readonly mode: number;
  /** Numeric owner, root when missing. */
  readonly uid?: number;
  readonly gid?: number;
} & (
  | { readonly type: "file"; readonly content?: Buffer; readonly target?: never }
  | { readonly type: "directory"; readonly content?: never; readonly target?: never }
  | { readonly type: "symlink"; readonly target: string; readonly content?: never }
);

// tar-stream replaces a mode of 0 by its default. The file type bits keep it from that; it masks them away.
const regularFile = 0o100000;

/**
 * The tar of `entries` in the given order. Equal entries give equal bytes everywhere: all times are the epoch, owners
 * have no names.
 */
export async function buildTar(entries: readonly ArchiveEntry[]): Promise<Buffer> {
  const tar = pack();
  for (const entry of entries) {
    const header = {
      name: entry.path.replace(/^\/+/, ""),
      mode: entry.mode | regularFile,
      uid: entry.uid ?? 0,
      gid: entry.gid ?? 0,
      mtime: new Date(0),
    };
    if (entry.type === "file") tar.entry({ ...header, type: "file" }, entry.content ?? Buffer.alloc(0));
    else if (entry.type === "symlink") tar.entry({ ...header, type: "symlink", linkname: entry.target });
    else tar.entry({ ...header, type: "directory" });
  }
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
