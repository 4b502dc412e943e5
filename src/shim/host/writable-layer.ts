/** Where on this host a container's own files are. */
import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import type { Snapshot } from "../domain/snapshot.js";
import { isCgroupOf, ProcFiles } from "./proc-files.js";

/**
 * As the graph driver names it (overlay2); else, as with the containerd image store, the upper directory of the overlay
 * that the container's processes have as their root. Undefined for drivers that copy whole file systems, and for
 * directories that are not in this program's reach.
 */
export async function findWritableLayer(
  { id, state, graphDriver }: Pick<Snapshot, "id" | "state" | "graphDriver">,
  proc = new ProcFiles(),
): Promise<string | undefined> {
  const directory = graphDriver["UpperDir"] ?? (await mountedUpperDirectory(id, state.pid, proc));
  if (directory === undefined || !isAbsolute(directory)) return undefined;
  const found = await stat(directory).catch(() => undefined);
  return found?.isDirectory() === true ? directory : undefined;
}

async function mountedUpperDirectory(id: string, pid: number, proc: ProcFiles): Promise<string | undefined> {
  if (pid <= 1) return undefined;
  const mounts = await proc.text(pid, "mountinfo");
  // Asked last: the process that is proven is the one whose mounts were read.
  return isCgroupOf(id, await proc.text(pid, "cgroup")) ? upperDirectoryOf(mounts ?? "") : undefined;
}

/** From lines `id parent device root / options … - overlay source superOptions`. */
export function upperDirectoryOf(mountinfo: string): string | undefined {
  for (const line of mountinfo.split("\n")) {
    const [left = "", right = ""] = line.split(" - ");
    const [type, , superOptions = ""] = right.split(" ");
    if (left.split(" ")[4] !== "/" || type !== "overlay") continue;
    return /(?:^|,)upperdir=([^,]+)/.exec(superOptions)?.[1];
  }
  return undefined;
}
