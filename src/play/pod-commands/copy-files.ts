/** `dockershim pod cp`: archives from and to `tar` in a container. What a container sends is not trusted. */
import { constants, createReadStream } from "node:fs";
import { lstat, mkdir, open, readdir, readlink, stat } from "node:fs/promises";
import { basename, join, posix, resolve, sep } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { extract, type Header, pack, type Pack } from "tar-stream";
import { ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";

/** One side of a copy: a local path, or one in a container. */
export interface FileSpec {
  /** `NAME` or `NAMESPACE/NAME`; undefined for a local path. */
  readonly pod: string | undefined;
  readonly path: string;
}

/** `POD:PATH`, `NAMESPACE/POD:PATH` or a local path, which begins with `.` or `/` when it has a colon. */
export function parseFileSpec(text: string): FileSpec {
  const colon = text.indexOf(":");
  if (colon === -1 || /^[./]/.test(text)) return { pod: undefined, path: text };
  const place = { pod: text.slice(0, colon), path: text.slice(colon + 1) };
  if (place.pod !== "" && place.path !== "" && !place.path.includes("\0")) return place;
  throw new ShimError("invalid", `path ${JSON.stringify(text)}: write POD:PATH, or a local path`);
}

/** The command whose output `unpackFrom` reads. It runs in the container's working directory. */
export function packCommand(path: string): readonly string[] {
  const { directory, name } = placeOf(path);
  return ["tar", "-cf", "-", "-C", directory, "--", name || "."];
}

/** The command that reads what `packInto` writes; makes its files below `directory`. */
export function unpackCommand(directory: string): readonly string[] {
  return ["tar", "-xmf", "-", "-C", directory];
}

/** `name` is empty for a directory that has none here, as `/`, `.` and `..`. */
function placeOf(path: string): { readonly directory: string; readonly name: string } {
  const cleaned = posix.isAbsolute(path) ? posix.resolve(path) : posix.normalize(path).replace(/\/$/, "");
  const name = posix.basename(cleaned);
  return /^(\.{0,2}|(\.\.\/)+\.\.)$/.test(cleaned) || name === ""
    ? { directory: cleaned, name: "" }
    : { directory: posix.dirname(cleaned), name };
}

/**
 * Writes the files of `archive`, which `packCommand(path)` made, to `target`: a file under that name or into an
 * existing directory, a directory's content into `target`. Links and special files are left out and reported:
 * the next entry could be written through a link. Entries outside of `path` are refused. Returns how many files
 * were written.
 */
export async function unpackFrom(
  archive: Readable,
  path: string,
  target: string,
  report: (line: string) => void,
): Promise<number> {
  const { name } = placeOf(path);
  const root = resolve(target);
  const targetIsDirectory = await isDirectory(root);
  let files = 0;
  const entries = extract();
  const writing = (async () => {
    for await (const entry of entries) {
      const { name: entryName, type } = entry.header;
      const below = belowName(entryName, name);
      if (below === undefined) {
        report(`left out ${shownText(entryName)}: it is outside of ${shownText(path)}`);
        entry.resume();
        continue;
      }
      if (type === "directory") {
        await makeDirectory(root, below);
        entry.resume();
      } else if (type === "file" || type === "contiguous-file") {
        const parts = below.length === 0 && targetIsDirectory ? [name] : below;
        if (parts.length > 0) await makeDirectory(root, parts.slice(0, -1));
        await writeEntry(Readable.from(entry as AsyncIterable<Buffer>), join(root, ...parts), entry.header);
        files += 1;
      } else {
        report(`left out ${shownText(entryName)}: it is not a file (${type})`);
        entry.resume();
      }
    }
  })();
  await Promise.all([pipeline(archive, entries), writing]);
  return files;
}

/** The parts of an entry's name below `name`; undefined when it is not below it. */
export function belowName(entryName: string, name: string): readonly string[] | undefined {
  const parts = entryName.split("/").filter((part) => part !== "" && part !== ".");
  // The archive of "/" has entries without a first part of its own.
  const below = name === "" ? parts : parts[0] === name ? parts.slice(1) : undefined;
  const isSafe = below?.every((part) => part !== ".." && !part.includes("\0") && !part.includes(sep));
  return isSafe === true && !entryName.startsWith("/") ? below : undefined;
}

/** One level after the other, through no link that was there before. */
async function makeDirectory(root: string, parts: readonly string[]): Promise<void> {
  await mkdir(root, { recursive: true });
  let path = root;
  for (const part of parts) {
    path = join(path, part);
    await mkdir(path).catch((error: unknown) => {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    });
    if (!(await lstat(path)).isDirectory())
      throw new ShimError("precondition", `write below "${shownText(path)}": it is there, and no directory`);
  }
}

async function writeEntry(content: Readable, path: string, { mode }: Header): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  // Without set-user-id: the file belongs to this user.
  const file = await open(path, flags, mode & 0o777);
  await pipeline(content, file.createWriteStream());
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return false;
    throw error;
  }
}

/** An archive of a local file or directory, whose first entry is called `name`. Rejects while it is read. */
export function packInto(path: string, name: string, report: (line: string) => void): Readable {
  const archive = pack();
  addTree(archive, path, name, report).then(
    () => archive.finalize(),
    (error: unknown) => archive.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  return Readable.from(archive as AsyncIterable<Buffer>);
}

async function addTree(
  archive: Pack,
  path: string,
  name: string,
  report: (line: string) => void,
): Promise<void> {
  const stats = await lstat(path);
  const header = { name, mode: stats.mode & 0o7777, mtime: stats.mtime };
  if (stats.isDirectory()) {
    await addEntry(archive, { ...header, type: "directory" });
    for (const child of (await readdir(path)).sort())
      await addTree(archive, join(path, child), `${name}/${child}`, report);
  } else if (stats.isSymbolicLink()) {
    await addEntry(archive, { ...header, type: "symlink", linkname: await readlink(path) });
  } else if (stats.isFile()) {
    const entry = archive.entry({ ...header, size: stats.size });
    // A file that grows meanwhile is cut off where it was.
    await pipeline(stats.size === 0 ? [] : createReadStream(path, { end: stats.size - 1 }), entry);
  } else {
    report(`left out ${shownText(path)}: it is not a file`);
  }
}

function addEntry(archive: Pack, header: Parameters<Pack["entry"]>[0]): Promise<void> {
  return new Promise((done, fail) =>
    archive.entry(header, (error) => {
      if (error) fail(error);
      else done();
    }),
  );
}

/** Where `source` goes in the container: below `target` when that is a directory, else under its name. */
export function uploadTarget(
  source: string,
  target: string,
  { isDirectory: into }: { readonly isDirectory: boolean },
): { readonly directory: string; readonly name: string } {
  const { directory, name } = placeOf(target);
  return into || name === ""
    ? { directory: posix.join(directory, name), name: basename(resolve(source)) }
    : { directory, name };
}
