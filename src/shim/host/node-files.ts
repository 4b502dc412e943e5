/** Files of the node that requests refer to. */
import { open, readdir, readFile, realpath, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { ShimError } from "../base/errors.js";

const appArmorProfiles = "/sys/kernel/security/apparmor/profiles";

export async function statPath(path: string): Promise<"file" | "directory" | "other" | undefined> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) return "directory";
    return found.isFile() ? "file" : "other";
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw new ShimError("unavailable", `look at "${path}": ${String(error)}`, { path }, { cause: error });
  }
}

/** The text of a regular file of at most `limitBytes`. */
export async function readNodeFile(path: string, limitBytes: number): Promise<string> {
  if ((await statPath(path)) !== "file") throw new ShimError("invalid", `"${path}" is no regular file`, { path });
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    if (size > limitBytes) {
      throw new ShimError("invalid", `"${path}" has ${String(size)} bytes, more than ${String(limitBytes)}`, { path });
    }
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

/** Names from `name (mode)` lines; undefined on kernels without AppArmor. */
export async function loadedAppArmorProfiles(): Promise<ReadonlySet<string> | undefined> {
  const text = await readFile(appArmorProfiles, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  return new Set(text.split("\n").map((line) => line.replace(/ \([a-z]+\)$/, "")));
}

/** Below `/dev` a directory stands for every device in it, as in Docker's own command line. */
export async function expandDevice(hostPath: string): Promise<readonly string[]> {
  const real = await realpath(hostPath).catch(() => undefined);
  if (real === undefined) throw new ShimError("invalid", `device "${hostPath}" does not exist`, { path: hostPath });
  const found = await stat(real);
  if (!found.isDirectory()) return [hostPath];
  if (real !== "/dev" && !real.startsWith("/dev/")) {
    throw new ShimError("invalid", `device "${hostPath}" is a directory outside /dev`, { path: hostPath });
  }
  const devices: string[] = [];
  for (const entry of await readdir(hostPath, { recursive: true, withFileTypes: true })) {
    if (entry.isCharacterDevice() || entry.isBlockDevice()) devices.push(join(entry.parentPath, entry.name));
  }
  return devices.sort();
}

export async function fileSystemUsage(
  path: string,
): Promise<{ readonly usedBytes: number; readonly usedInodes: number } | undefined> {
  try {
    const { blocks, bfree, bsize, files, ffree } = await statfs(path);
    return { usedBytes: (blocks - bfree) * bsize, usedInodes: files - ffree };
  } catch {
    return undefined;
  }
}
