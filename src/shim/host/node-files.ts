/** Files of the node that requests refer to, and the resolv.conf of a sandbox, which the engine has made. */
import { constants, type FileHandle, open, readdir, readFile, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { blockDeviceName, splitDeviceNumber } from "../../lib/linux/kernel-file.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import type { CdiSpecDocument, FileSystemUsage } from "../ports/host.js";
import type { Logger } from "../../lib/log.js";

const appArmorProfiles = "/sys/kernel/security/apparmor/profiles";

/** The text of a regular file of at most `limitBytes`, else `invalid`. Links are followed. */
export async function readNodeFile(path: string, limitBytes: number): Promise<string> {
  try {
    // Not waiting for the other end of a FIFO.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    if (!(await file.stat()).isFile()) {
      throw new ShimError("invalid", `read "${path}": not a regular file`, { path });
    }
    // Not by the size that stat tells: that of files in /proc is 0, and others grow.
    const buffer = Buffer.alloc(limitBytes + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = (await file.read(buffer, length, buffer.length - length, length)).bytesRead;
    }
    if (length > limitBytes) {
      const message = `read "${path}": larger than ${limitBytes} bytes`;
      throw new ShimError("invalid", message, { path });
    }
    return buffer.toString("utf8", 0, length);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) {
      throw new ShimError("invalid", `read "${path}": no such file`, { path });
    }
    throw fileError("read", path, error);
  }
}

/** Names from `name (mode)` lines; undefined on kernels without AppArmor. */
export async function loadedAppArmorProfiles(
  path = appArmorProfiles,
): Promise<ReadonlySet<string> | undefined> {
  const text = await readFile(path, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const names = text.split("\n").map((line) => line.replace(/ \([a-z]+\)$/, ""));
  return new Set(names.filter((name) => name !== ""));
}

/** The file system of `path`; undefined when that cannot be told. */
export async function fileSystemUsage(path: string): Promise<FileSystemUsage | undefined> {
  try {
    const { blocks, bfree, bsize, files, ffree } = await statfs(path);
    const { major, minor } = splitDeviceNumber((await stat(path)).dev);
    return {
      device: blockDeviceName(major, minor),
      usedBytes: (blocks - bfree) * bsize,
      usedInodes: files - ffree,
      totalBytes: blocks * bsize,
      totalInodes: files,
      freeInodes: ffree,
    };
  } catch {
    return undefined;
  }
}

const limitBytes = 4 * 1024 * 1024;

/**
 * Parses every `.json` and `.yaml` file of the CDI directories, later ones with higher priority. A missing
 * directory holds none. A file that cannot be read is logged, and has no content: a broken file of one vendor
 * must not cost the devices of another, and a device that was in it is then refused as unknown.
 */
export async function readCdiSpecs(
  directories: readonly string[],
  log: Pick<Logger, "warn">,
): Promise<readonly CdiSpecDocument[]> {
  const documents: CdiSpecDocument[] = [];
  for (const [priority, directory] of directories.entries()) {
    for (const name of await specFiles(directory, log)) {
      const path = join(directory, name);
      try {
        documents.push({ path, priority, content: await parse(path) });
      } catch (error) {
        log.warn({ path, err: messageOf(error) }, "CDI specification cannot be read, ignored");
        documents.push({ path, priority, content: undefined });
      }
    }
  }
  return documents;
}

async function specFiles(directory: string, log: Pick<Logger, "warn">): Promise<readonly string[]> {
  try {
    return (await readdir(directory)).filter((name) => /\.(json|yaml)$/.test(name)).sort();
  } catch (error) {
    if (!hasCode(error, "ENOENT")) {
      log.warn({ path: directory, err: messageOf(error) }, "CDI directory cannot be read, ignored");
    }
    return [];
  }
}

async function parse(path: string): Promise<unknown> {
  const { parse: parseYaml } = await import("../../lib/yaml.js");
  // JSON is YAML, too.
  return parseYaml(await readNodeFile(path, limitBytes));
}

/**
 * Writes the resolv.conf of a sandbox in place, no rename: the engine bind-mounts this very inode into every container of the pod, and a
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
