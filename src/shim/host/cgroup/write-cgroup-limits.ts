/** Limits that Docker's API has no field for, written to the cgroup files of a running container. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../../../lib/errors.js";
import { hasCode } from "../../../lib/files/file-errors.js";
import { readKernelFile } from "../../../lib/linux/kernel-file.js";
import type { CgroupSettings } from "../../ports/host.js";
import { type CgroupMounts, ContainerCgroup, readCgroupMounts, unified } from "./cgroup-paths.js";
import { isCgroupOf, ProcFiles } from "../processes/proc-files.js";

export interface CgroupTarget {
  readonly containerId: string;
  /** A process of the container. */
  readonly pid: number;
  /** As the engine says. */
  readonly cgroupVersion: 1 | 2;
  /** Where they are known already. */
  readonly mounts?: CgroupMounts;
}

/** Names of cgroup v2; what begins with `cgroup.` moves processes about and is no limit. */
const settingForm = /^(?!cgroup\.)[a-z]+(?:\.[A-Za-z0-9_]+)+$/;
/** The kernel's value for "no limit". */
const unlimitedBytes = 2n ** 63n - 1n;
/** As the kernel spells them in file names. */
const pageSizeForm = /^\d+[KMG]B$/;

/**
 * Writes `settings`: all that can be written, then the first error. `invalid` for names that are none and for
 * values that the kernel refuses, `unsupported` when the cgroup is out of reach or the host has not the file.
 * Without a controller for hugepages their limits are left out, as containerd does; the answer names the
 * sizes of those above 0. Kubelets send a limit of 0 for each page size of the node.
 */
export async function applyCgroup(
  target: CgroupTarget,
  settings: CgroupSettings,
  proc = new ProcFiles(),
): Promise<readonly string[]> {
  const cgroup = await cgroupOf(target, proc);
  if (cgroup === undefined) {
    const { containerId } = target;
    throw new ShimError("unsupported", "the cgroup of the container is out of reach on this host", {
      containerId,
    });
  }
  const names = Object.entries(settings.unified);
  if (names.length > 0 && target.cgroupVersion !== 2) {
    throw new ShimError("invalid", "linux.resources.unified needs cgroup version 2");
  }
  const failures: unknown[] = [];
  const without: string[] = [];
  for (const [name, value] of names) {
    await writeSetting(cgroup, name, value).catch((error: unknown) => failures.push(error));
  }
  for (const { pageSize, limitBytes } of settings.hugepages) {
    try {
      if (!(await limitHugepages(cgroup, pageSize, limitBytes))) without.push(pageSize);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return without;
}

/** Present values, without those that cannot be read. Undefined when the cgroup is out of reach. */
export async function presentCgroup(
  target: CgroupTarget,
  settings: CgroupSettings,
  proc = new ProcFiles(),
): Promise<CgroupSettings | undefined> {
  const cgroup = await cgroupOf(target, proc);
  if (cgroup === undefined) return undefined;
  const present: Record<string, string> = {};
  const directory = cgroup.directory(unified);
  for (const name of Object.keys(settings.unified)) {
    if (directory === undefined || !settingForm.test(name)) continue;
    const value = await read(join(directory, name));
    if (value !== undefined) present[name] = value;
  }
  const hugepages: CgroupSettings["hugepages"][number][] = [];
  for (const { pageSize } of settings.hugepages) {
    const file = pageSizeForm.test(pageSize) ? hugepagesFile(cgroup, pageSize) : undefined;
    const value = file === undefined ? undefined : await read(file.prefix + file.limit);
    if (value === "max") hugepages.push({ pageSize, limitBytes: unlimitedBytes });
    else if (value !== undefined && /^\d+$/.test(value))
      hugepages.push({ pageSize, limitBytes: BigInt(value) });
  }
  return { unified: present, hugepages };
}

/** Undefined when the process is not provably of the container. */
export async function cgroupOf(
  target: CgroupTarget,
  proc = new ProcFiles(),
): Promise<ContainerCgroup | undefined> {
  const text = target.pid > 1 ? await proc.text(target.pid, "cgroup") : undefined;
  if (text === undefined || !isCgroupOf(target.containerId, text)) return undefined;
  return new ContainerCgroup(target.containerId, text, target.mounts ?? (await readCgroupMounts(proc)));
}

async function writeSetting(cgroup: ContainerCgroup, name: string, value: string): Promise<void> {
  if (!settingForm.test(name))
    throw new ShimError("invalid", `cgroup setting "${name}": not the name of a limit`);
  const directory = cgroup.directory(unified);
  if (directory === undefined) throw noController(`cgroup setting "${name}"`);
  // Files with one value per device take one line at a time.
  for (const line of value.split("\n")) {
    if (!(await write(join(directory, name), line))) throw noController(`cgroup setting "${name}"`);
  }
}

/** False for a limit above 0 on a host without a controller for hugepages. */
async function limitHugepages(
  cgroup: ContainerCgroup,
  pageSize: string,
  limitBytes: bigint,
): Promise<boolean> {
  if (!pageSizeForm.test(pageSize))
    throw new ShimError("invalid", `hugepages of "${pageSize}": not a page size`);
  const file = hugepagesFile(cgroup, pageSize);
  const written = file !== undefined && (await write(file.prefix + file.limit, String(limitBytes)));
  if (!written) {
    if (limitBytes === 0n) return true;
    if (await hasHugetlb(cgroup)) throw noController(`hugepages of "${pageSize}"`);
    return false;
  }
  // Reservations count apart since Linux 5.7; without a limit they could take other pages.
  await write(`${file.prefix}rsvd.${file.limit}`, String(limitBytes));
  return true;
}

/** Where OCI runtimes expect the hierarchy of v2, and nowhere else. */
const runtimesUnified = "/sys/fs/cgroup";

/** Whether an OCI runtime can: it uses one version alone, and with v1 no controller in the hierarchy of v2. */
export async function limitsHugepages(
  mounts: CgroupMounts,
  version: 1 | 2,
  directory = runtimesUnified,
): Promise<boolean> {
  return version === 1 ? mounts.has("hugetlb") : hasHugetlbIn(directory);
}

async function hasHugetlb(cgroup: ContainerCgroup): Promise<boolean> {
  if (cgroup.directory("hugetlb") !== undefined) return true;
  const directory = cgroup.directory(unified);
  if (directory === undefined) return false;
  return hasHugetlbIn(directory);
}

async function hasHugetlbIn(directory: string): Promise<boolean> {
  return (await read(join(directory, "cgroup.controllers")))?.split(" ").includes("hugetlb") ?? false;
}

function hugepagesFile(
  cgroup: ContainerCgroup,
  pageSize: string,
): { readonly prefix: string; readonly limit: string } | undefined {
  const v1 = cgroup.directory("hugetlb");
  // Without it, a host of version 1 may still have the controller in the hierarchy of version 2.
  const directory = v1 ?? cgroup.directory(unified);
  if (directory === undefined) return undefined;
  const limit = v1 === undefined ? "max" : "limit_in_bytes";
  return { prefix: join(directory, `hugetlb.${pageSize}.`), limit };
}

function noController(what: string): ShimError {
  return new ShimError("unsupported", `${what}: this host has no cgroup controller for it`);
}

/** Undefined when it cannot be read: some files are only written. */
async function read(path: string): Promise<string | undefined> {
  return readKernelFile(path).then(
    (text) => text.trim(),
    () => undefined,
  );
}

/** False when there is no such file. */
async function write(path: string, value: string): Promise<boolean> {
  try {
    await writeFile(path, value, { flag: "r+" });
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return false;
    const kind = hasCode(error, "EROFS") ? "unsupported" : "invalid";
    const message = `write "${value}" to "${path}": ${messageOf(error)}`;
    throw new ShimError(kind, message, { path }, { cause: error });
  }
}
