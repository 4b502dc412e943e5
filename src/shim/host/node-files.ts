/** Files of the node that requests refer to. */
import { lstat, constants, open, readdir, readFile, realpath, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { ShimError } from "../base/errors.js";
import { blockDeviceName, splitDeviceNumber } from "../base/block-device.js";
import { fileError, hasCode } from "../base/file-errors.js";
import type { FileSystemUsage } from "../ports/host.js";

const appArmorProfiles = "/sys/kernel/security/apparmor/profiles";

/** Undefined: no such path. Symbolic links are followed. */
export async function statPath(path: string): Promise<"file" | "directory" | "other" | undefined> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) return "directory";
    return found.isFile() ? "file" : "other";
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    // A loop of links, a name that is too long: nothing that waiting would mend.
    if (hasCode(error, "ELOOP", "ENAMETOOLONG")) return "other";
    throw fileError("look at", path, error);
  }
}

/** The text of a regular file of at most `limitBytes`; `invalid` for anything else. Symbolic links are followed. */
export async function readNodeFile(path: string, limitBytes: number): Promise<string> {
  try {
    // Not waiting for the other end of a FIFO.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
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
        const message = `read "${path}": larger than ${String(limitBytes)} bytes`;
        throw new ShimError("invalid", message, { path });
      }
      return buffer.toString("utf8", 0, length);
    } finally {
      await file.close();
    }
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

/**
 * The path itself, or for a directory below `/dev` the path of every device in it, as in Docker's own command line. Links
 * inside the directory are not followed.
 */
export async function expandDevice(hostPath: string, deviceRoot = "/dev"): Promise<readonly string[]> {
  try {
    const real = await realpath(hostPath);
    if (!(await stat(real)).isDirectory()) return [hostPath];
    if (real !== deviceRoot && !real.startsWith(`${deviceRoot}/`)) {
      const message = `device "${hostPath}" is a directory outside ${deviceRoot}`;
      throw new ShimError("invalid", message, { path: hostPath });
    }
    return (await devicesBelow(hostPath)).sort();
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR", "ELOOP")) {
      throw new ShimError("invalid", `device "${hostPath}" does not exist`, { path: hostPath });
    }
    throw fileError("look at device", hostPath, error);
  }
}

/** By lstat, not by the types that readdir tells: in containers devices are bound over plain files. */
async function devicesBelow(directory: string): Promise<string[]> {
  const found = await Promise.all(
    (await readdir(directory)).map(async (name) => {
      const path = join(directory, name);
      const entry = await lstat(path).catch((error: unknown) => {
        // Gone since it was listed.
        if (hasCode(error, "ENOENT")) return undefined;
        throw error;
      });
      if (entry?.isDirectory() === true) return devicesBelow(path);
      return entry?.isCharacterDevice() === true || entry?.isBlockDevice() === true ? [path] : [];
    }),
  );
  return found.flat();
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
