/** The cgroup of `--runtime-cgroups`: made, limited, and joined by processes of the engine. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { aggregate, messageOf, ShimError } from "../../../lib/errors.js";
import { hasCode } from "../../../lib/files/file-errors.js";
import { readKernelFile } from "../../../lib/linux/kernel-file.js";
import {
  type CgroupMounts,
  directoryOf,
  parseProcCgroup,
  readCgroupMounts,
  unified,
} from "./cgroup-paths.js";
import type { ProcFiles } from "../processes/proc-files.js";

const memoryShare = 0.7;
const leastMemoryBytes = 150 * 1024 * 1024;

/**
 * Moves a process into the cgroup `name` (absolute) in every hierarchy with controllers, and makes it where
 * it is missing, with a memory limit of 70 % of the machine's (at least 150 MiB) and swap without limit. With
 * cgroup v1 these are all mounted controllers, but not the named hierarchy, which is systemd's own record of
 * its services; with v2 there is one. A hierarchy where the process is in `name` already is left as it is.
 * Answers whether anything was moved. A failure in one hierarchy does not stop it; all are thrown.
 */
export async function moveIntoCgroup(proc: ProcFiles, pid: number, name: string): Promise<boolean> {
  if (!/^\/[^/]/.test(name) || name.split("/").includes("..")) {
    throw new ShimError("invalid", `move process ${pid} into cgroup "${name}": not the absolute name of one`);
  }
  const mounts = await readCgroupMounts(proc);
  const present = parseProcCgroup((await proc.text(pid, "cgroup")) ?? "");
  const memoryBytes = await memoryLimit(proc);
  const failures: unknown[] = [];
  const done = new Set<string>();
  for (const controller of hierarchiesOf(present, mounts)) {
    const mount = mounts.get(controller);
    if (mount === undefined || present.get(controller) === name) continue;
    try {
      const directory = directoryOf(mount, name);
      // Controllers that are mounted together are one hierarchy.
      if (done.has(directory)) continue;
      await makeCgroup(mount.mountPoint, directory, controller);
      if (controller === "memory") await limitMemoryV1(directory, memoryBytes);
      if (controller === unified) await limitMemoryV2(directory, memoryBytes);
      await write(join(directory, "cgroup.procs"), String(pid));
      done.add(directory);
    } catch (error) {
      const where = controller === unified ? "cgroup" : `${controller} cgroup`;
      failures.push(ShimError.from(error).within(`move process ${pid} into ${where} "${name}"`));
    }
  }
  const failure = aggregate(failures);
  if (failure !== undefined) throw failure;
  return done.size > 0;
}

/** On hosts with both versions the controllers are those of v1, and what v2 has is left to its owner. */
function hierarchiesOf(present: ReadonlyMap<string, string>, mounts: CgroupMounts): readonly string[] {
  const v1 = [...present.keys()].filter((key) => /^[a-z_]+$/.test(key) && mounts.has(key));
  if (v1.length === 0) return mounts.has(unified) ? [unified] : [];
  // The memory limit comes first, and cpuset last: it is the one that fails on odd hosts.
  return v1.sort((a, b) => rank(a) - rank(b));
}

function rank(controller: string): number {
  return controller === "memory" ? 0 : controller === "cpuset" ? 2 : 1;
}

async function makeCgroup(mountPoint: string, directory: string, controller: string): Promise<void> {
  let parent = mountPoint;
  for (const part of directory
    .slice(mountPoint.length)
    .split("/")
    .filter((one) => one !== "")) {
    if (controller === unified) {
      // Refused where processes stand in the way; the limit that is written later says whether it matters.
      await write(join(parent, "cgroup.subtree_control"), "+memory").catch(() => undefined);
    }
    const child = join(parent, part);
    await mkdir(child).catch((error: unknown) => {
      if (!hasCode(error, "EEXIST")) throw error;
    });
    if (controller === "cpuset") await inheritCpuset(parent, child);
    parent = child;
  }
}

/** A new v1 cpuset is empty and takes no process. */
async function inheritCpuset(parent: string, child: string): Promise<void> {
  for (const file of ["cpuset.cpus", "cpuset.mems"]) {
    if ((await readKernelFile(join(child, file))).trim() !== "") continue;
    await write(join(child, file), (await readKernelFile(join(parent, file))).trim());
  }
}

async function limitMemoryV1(directory: string, bytes: number): Promise<void> {
  // First, because it may never be lower than the other. Kernels without swap accounting have no such file.
  await write(join(directory, "memory.memsw.limit_in_bytes"), "-1").catch(unlessMissing);
  await write(join(directory, "memory.limit_in_bytes"), String(bytes));
}

async function limitMemoryV2(directory: string, bytes: number): Promise<void> {
  await write(join(directory, "memory.swap.max"), "max").catch(unlessMissing);
  await write(join(directory, "memory.max"), String(bytes));
}

async function memoryLimit(proc: ProcFiles): Promise<number> {
  const text = await readKernelFile(`${proc.root}/meminfo`).catch(() => "");
  const kibibytes = Number(/^MemTotal:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0);
  return Math.max(leastMemoryBytes, Math.floor(kibibytes * 1024 * memoryShare));
}

async function write(path: string, value: string): Promise<void> {
  try {
    await writeFile(path, value, { flag: "r+" });
  } catch (error) {
    const message = `write "${value}" to "${path}": ${messageOf(error)}`;
    throw new ShimError("internal", message, { path }, { cause: error });
  }
}

function unlessMissing(error: unknown): void {
  if (!(error instanceof ShimError) || !hasCode(error.cause, "ENOENT")) throw error;
}
