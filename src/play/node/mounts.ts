/** What is mounted on the engine's host, where it is this one. */
import { readFile, realpath } from "node:fs/promises";
import { sep } from "node:path";
import { hasCode } from "../../lib/files/file-errors.js";

export async function isMountPoint(path: string): Promise<boolean> {
  return (await mountPointsBelow(path)).includes(await realpath(path));
}

/** In the order in which they were made; none for a path that is missing. */
export async function mountPointsBelow(path: string): Promise<readonly string[]> {
  let real: string;
  try {
    real = await realpath(path);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  }
  return mountPointsOf(await readFile("/proc/self/mountinfo", "utf8"), real);
}

/** Those at `path` and below it, of the text of mountinfo. */
export function mountPointsOf(mountinfo: string, path: string): readonly string[] {
  return mountinfo
    .split("\n")
    .map((line) => unescapeMountPath(line.split(" ")[4] ?? ""))
    .filter((point) => point === path || point.startsWith(path + sep));
}

/** The kernel writes blanks and backslashes as three octal digits. */
function unescapeMountPath(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
