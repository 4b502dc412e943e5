/** Of what the kernel has a limited number, and how much of it is in use. */
import { watch } from "node:fs";
import { hasCode } from "../../lib/files/file-errors.js";
import type { KernelLimit } from "../facts.js";

/** What this kernel does not tell is left out. `read`: a file without blanks around it; undefined for none. */
export async function readKernelLimits(
  read: (path: string) => Promise<string | undefined>,
  watches: () => boolean = canWatch,
): Promise<readonly KernelLimit[]> {
  const number = async (path: string): Promise<number> => Number((await read(path)) ?? NaN);
  const netfilter = "/proc/sys/net/netfilter/nf_conntrack";
  const [files, , mostFiles] = ((await read("/proc/sys/fs/file-nr")) ?? "").split(/\s+/);
  const [, , , threads = ""] = ((await read("/proc/loadavg")) ?? "").split(" ");
  const ids = await number("/proc/sys/kernel/pid_max");
  const limits: readonly KernelLimit[] = [
    {
      name: "connections",
      used: await number(`${netfilter}_count`),
      limit: await number(`${netfilter}_max`),
    },
    {
      name: "threads",
      used: Number(threads.split("/")[1] ?? NaN),
      limit: Math.min(ids, await number("/proc/sys/kernel/threads-max")),
    },
    { name: "files", used: Number(files), limit: Number(mostFiles) },
  ];
  const known = limits.filter(({ used, limit }) => Number.isFinite(used) && limit > 0);
  if (watches()) return known;
  const instances = await number("/proc/sys/fs/inotify/max_user_instances");
  return [...known, { name: "inotify", used: instances, limit: instances }];
}

/** Nothing says how many there are: whether there is room for one more. */
function canWatch(): boolean {
  try {
    watch("/proc").close();
    return true;
  } catch (error) {
    return !hasCode(error, "EMFILE", "ENOSPC");
  }
}
