/** Gives a volume to the fsGroup of its pod. No links are followed. */
import type { Stats } from "node:fs";
import { constants } from "node:fs";
import { type FileHandle, chmod, chown, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { hasCode } from "../../lib/files/file-errors.js";
import { pathOf, placeOnly } from "./open-below.js";

/** As the kubelet for fsGroup. With `trustRoot`, a root that is of the group already ends the work. */
export async function giveToGroup(path: string, group: number, trustRoot: boolean): Promise<void> {
  await using root = await open(path, placeOnly | constants.O_NOFOLLOW);
  const stats = await root.stat();
  if (trustRoot && stats.gid === group && (stats.mode & 0o2770) === 0o2770) return;
  await giveTree(root, stats, group);
}

async function giveTree(file: FileHandle, { uid, gid, mode }: Stats, group: number): Promise<void> {
  const stats = await file.stat();
  const path = pathOf(file);
  if (gid !== group) await chown(path, uid, group);
  const isDirectory = stats.isDirectory();
  const wanted = (mode | (isDirectory ? 0o2770 : 0o660)) & 0o7777;
  // A change of the owner takes set-id bits away.
  if (gid !== group || wanted !== (mode & 0o7777)) await chmod(path, wanted);
  if (!isDirectory) return;
  for (const name of await readdir(path)) {
    let child: FileHandle;
    try {
      child = await open(join(path, name), placeOnly | constants.O_NOFOLLOW);
    } catch (error) {
      if (hasCode(error, "ENOENT")) continue; // Removed by another pod.
      throw error;
    }
    try {
      const childStats = await child.stat();
      if (!childStats.isSymbolicLink()) await giveTree(child, childStats, group);
    } finally {
      await child.close();
    }
  }
}
