/** The OCI runtime that a killed process of this program had begun a checkpoint with: it goes on without it. */
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isKind, ShimError } from "../../lib/errors.js";
import { isAlive, killGroup, markOf, type ProcessMark } from "../../lib/linux/process-mark.js";
import { temporaryPrefix } from "./checkpoint-archive.js";
import { ProcFiles } from "./processes/proc-files.js";

const deathMs = 5_000;
const pauseMs = 20;

/**
 * It is found by its words, which name container and working directory; CRIU is in its process group. Containers
 * have other mounts, and may have any words.
 */
export async function killCheckpoint(
  containerId: string,
  location: string,
  proc = new ProcFiles(),
): Promise<void> {
  const begin = join(dirname(location), temporaryPrefix);
  const mounts = await proc.link("self", "ns/mnt");
  const marks = await proc.mapDefined(await proc.pids(), async (pid): Promise<ProcessMark | undefined> => {
    if ((await proc.link(pid, "ns/mnt")) !== mounts) return undefined;
    const mark = markOf(pid);
    const words = await wordsOf(pid, proc);
    const work = words[words.indexOf("--work-path") + 1] ?? "";
    return words.includes("checkpoint") && words.includes(containerId) && work.startsWith(begin)
      ? mark
      : undefined;
  });
  for (const { pid } of marks) killGroup(pid);
  for (let waited = 0; (await Promise.all(marks.map(isAlive))).includes(true); waited += pauseMs) {
    if (waited >= deathMs)
      throw new ShimError("unavailable", `the checkpoint of container "${containerId}" does not end`);
    await delay(pauseMs);
  }
}

async function wordsOf(pid: number, proc: ProcFiles): Promise<readonly string[]> {
  try {
    return (await proc.text(pid, "cmdline"))?.split("\0") ?? [];
  } catch (error) {
    // The OCI runtime has few.
    if (isKind(error, "exhausted")) return [];
    throw error;
  }
}
