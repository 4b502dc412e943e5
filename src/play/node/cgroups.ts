/** The cgroups of pods on the engine's host: by their files, or by systemctl(1) where systemd makes cgroups. */
import { constants } from "node:fs";
import { access, mkdir, open, readdir, rm, rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { ShimError, messageOf } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { kernelFileLines } from "../../lib/linux/kernel-file.js";
import type { CgroupDriverName } from "../cri/client.js";
import { isThere, readOrEmpty } from "./node-facts.js";
import { run } from "./run.js";
import {
  type PodCgroup,
  cgroupOfPods,
  cpuPeriodMicros,
  cpuWeight,
  podCgroupPath,
  podSlice,
} from "../pod-config/pod-cgroup.js";

/** Where the host has its files; tests have others. */
export interface CgroupHost {
  readonly mountTable: string;
  /** Is there when systemd runs the host. */
  readonly systemd: string;
  /** The properties that `systemctl set-property --runtime` has written. */
  readonly properties: string;
  readonly systemctl: (words: readonly string[]) => Promise<unknown>;
  /** Between two looks at a cgroup that is in use. */
  readonly pauseMs: number;
}

export const thisHost: CgroupHost = {
  mountTable: "/proc/self/mountinfo",
  systemd: "/run/systemd/system",
  properties: "/run/systemd/system.control",
  systemctl: (words) => run("systemctl", words),
  pauseMs: 50,
};

/** Containers that have ended may still be leaving their cgroups. */
const removalLooks = 40;
const looksBeforeKill = 20;
/** The cgroup of a container has its id in the name, whatever runtime made it. */
const ofContainer = /[0-9a-f]{64}/;

/** Where cgroups are: version 1 by controller, version 2 for all of them. */
interface Hierarchies {
  readonly version: 1 | 2;
  readonly mounts: ReadonlyMap<string, string>;
}

/** The key of version 2 among the mounts. */
const unified = "";
const needed = ["cpu", "memory"] as const;

/** Throws `unsupported` with the reason when play cannot make cgroups of pods on this host. */
export async function checkCgroups(driver: CgroupDriverName, host = thisHost): Promise<void> {
  const hierarchies = await readHierarchies(host);
  if (driver === "systemd") {
    if (!(await isThere(host.systemd))) throw unsupported("systemd does not run here");
    await host.systemctl(["show", "--property=Version"]);
    return;
  }
  for (const name of needed) await checkWritable(await makeCgroupIn(hierarchies, name, cgroupOfPods(driver)));
}

/** Makes the cgroup, if it is missing, and sets its limits. The processes in it stay. */
export async function makeCgroup(cgroup: PodCgroup, host = thisHost): Promise<void> {
  const hierarchies = await readHierarchies(host);
  const { driver, id } = cgroup;
  const path = podCgroupPath(id, driver);
  if (driver === "systemd") {
    const properties = sliceProperties(cgroup, hierarchies.version);
    await host.systemctl(["set-property", "--runtime", podSlice(id), ...properties]);
    if (cgroup.hugePages.length === 0) return;
    // systemd has no limit for huge pages, and resets none in files that it does not know.
    await host.systemctl(["start", podSlice(id)]);
  }
  const settings = settingsOf(cgroup, hierarchies.version);
  for (const { controller, file, value, isLimit } of settings) {
    if (driver === "systemd" && controller !== "hugetlb") continue;
    // As a kubelet: each container has its own limit of huge pages anyway.
    if (controller === "hugetlb" && !(await hasController(hierarchies, controller))) continue;
    const directory = await makeCgroupIn(hierarchies, controller, path);
    await writeSetting(join(directory, file), value, isLimit);
  }
}

/** Removes the cgroup of a pod in all hierarchies. Throws `precondition` when a process is in it. */
export async function removeCgroup(id: string, host = thisHost): Promise<void> {
  const roots = await allMounts(host);
  for (const driver of ["cgroupfs", "systemd"] as const) {
    const path = podCgroupPath(id, driver);
    const present = await Promise.all(
      [...roots].map(async (root) => ((await isThere(join(root, path))) ? [join(root, path)] : [])),
    );
    const directories = present.flat();
    for (const directory of directories) await waitUntilEmpty(directory, path, host);
    if (driver === "systemd") {
      if (directories.length > 0) await host.systemctl(["stop", podSlice(id)]);
      await rm(join(host.properties, `${podSlice(id)}.d`), { recursive: true, force: true });
    }
    for (const directory of directories) await removeEmpty(directory, path, host);
  }
}

/** `50%` of a core is 50 ms in 100 ms. systemd wants whole percents; runc and kubelets round up, too. */
function sliceProperties(cgroup: PodCgroup, version: 1 | 2): readonly string[] {
  const { cpuShares, cpuQuotaMicros, memoryBytes } = cgroup;
  const memory = memoryBytes ?? "infinity";
  const percent = cpuQuotaMicros && (cpuQuotaMicros * 100n + cpuPeriodMicros - 1n) / cpuPeriodMicros;
  return [
    version === 2 ? `CPUWeight=${cpuWeight(cpuShares)}` : `CPUShares=${cpuShares}`,
    `CPUQuota=${percent === undefined ? "" : `${percent}%`}`,
    version === 2 ? `MemoryMax=${memory}` : `MemoryLimit=${memory}`,
  ];
}

interface Setting {
  readonly controller: string;
  readonly file: string;
  readonly value: string;
  /** False: the value is what a kernel without the file does. */
  readonly isLimit: boolean;
}

function settingsOf(cgroup: PodCgroup, version: 1 | 2): readonly Setting[] {
  const { cpuShares, cpuQuotaMicros: quota, memoryBytes: memory } = cgroup;
  const hugePages = cgroup.hugePages.map(({ size, limitBytes }) => ({
    controller: "hugetlb",
    file: `hugetlb.${size}.${version === 2 ? "max" : "limit_in_bytes"}`,
    value: String(limitBytes),
    isLimit: true,
  }));
  const setting = (
    controller: string,
    file: string,
    value: bigint | undefined,
    unlimited: string,
  ): Setting => ({ controller, file, value: String(value ?? unlimited), isLimit: value !== undefined });
  if (version === 1)
    return [
      setting("cpu", "cpu.shares", cpuShares, ""),
      setting("cpu", "cpu.cfs_period_us", quota && cpuPeriodMicros, String(cpuPeriodMicros)),
      setting("cpu", "cpu.cfs_quota_us", quota, "-1"),
      setting("memory", "memory.limit_in_bytes", memory, "-1"),
      ...hugePages,
    ];
  const cpuMax = setting("cpu", "cpu.max", quota, "max");
  return [
    setting("cpu", "cpu.weight", cpuWeight(cpuShares), ""),
    { ...cpuMax, value: `${cpuMax.value} ${cpuPeriodMicros}` },
    setting("memory", "memory.max", memory, "max"),
    ...hugePages,
  ];
}

/** Never makes a file: in a cgroup the kernel has made those that it knows. */
async function writeSetting(path: string, value: string, isLimit = true): Promise<void> {
  try {
    await using file = await open(path, constants.O_WRONLY);
    await file.write(value);
  } catch (error) {
    if (!isLimit && hasCode(error, "ENOENT")) return;
    throw unsupported(`write ${value} to "${path}": ${messageOf(error)}`, error);
  }
}

/** Answers the directory. The cgroups above it, with version 2, give it the controller. */
async function makeCgroupIn(
  { version, mounts }: Hierarchies,
  controller: string,
  path: string,
): Promise<string> {
  const mount = mounts.get(version === 2 ? unified : controller);
  if (mount === undefined) throw unsupported(`the cgroup controller ${controller} is not mounted`);
  const parts = path.split("/").filter((part) => part !== "");
  let directory = mount;
  for (const part of parts) {
    if (version === 2) await enable(directory, controller);
    directory = join(directory, part);
    await makeDirectory(directory);
  }
  return directory;
}

async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o755 });
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw unsupported(messageOf(error), error);
  }
}

/** What an earlier play has made may be read-only by now, as in a container. */
async function checkWritable(directory: string): Promise<void> {
  try {
    await access(directory, constants.W_OK);
  } catch (error) {
    throw unsupported(messageOf(error), error);
  }
}

async function enable(directory: string, controller: string): Promise<void> {
  const path = join(directory, "cgroup.subtree_control");
  if (words(await readOrEmpty(path)).includes(controller)) return;
  if (!words(await readOrEmpty(join(directory, "cgroup.controllers"))).includes(controller))
    throw unsupported(`the cgroup controller ${controller} is not available in "${directory}"`);
  await writeSetting(path, `+${controller}`);
}

async function hasController({ version, mounts }: Hierarchies, controller: string): Promise<boolean> {
  if (version === 1) return mounts.has(controller);
  const root = mounts.get(unified) ?? "";
  return words(await readOrEmpty(join(root, "cgroup.controllers"))).includes(controller);
}

/** Waits until no process is in the cgroup or below it. Kills what a runtime has left in a container's. */
async function waitUntilEmpty(directory: string, path: string, { pauseMs }: CgroupHost): Promise<void> {
  for (let look = 1; ; look += 1) {
    const { value: pid } = (await processesIn(directory).next()) as { value?: string };
    if (pid === undefined) return;
    if (look === removalLooks) {
      const name = (await readOrEmpty(`/proc/${pid}/comm`)).trim();
      const what = `a process that is not a container's is in it: ${pid} (${name})`;
      throw new ShimError("precondition", `remove cgroup "${path}": ${what}`);
    }
    if (look >= looksBeforeKill) await killContainers(directory);
    await wait(pauseMs);
  }
}

async function killContainers(directory: string): Promise<void> {
  for (const child of await childrenOf(directory)) {
    if (!ofContainer.test(basename(child))) continue;
    for await (const pid of processesIn(child)) {
      try {
        // 0 is a process of a namespace that is not seen from here.
        if (pid !== "0") process.kill(Number(pid), "SIGKILL");
      } catch (error) {
        // It has ended.
        if (!hasCode(error, "ESRCH")) throw error;
      }
    }
  }
}

/** Ids of the processes in the cgroup and below it. */
async function* processesIn(directory: string): AsyncGenerator<string> {
  yield* (await readOrEmpty(join(directory, "cgroup.procs"))).split("\n").filter((pid) => pid !== "");
  for (const child of await childrenOf(directory)) yield* processesIn(child);
}

/** The kernel removes no cgroup that has processes or children, so that nothing in use can be lost. */
async function removeEmpty(directory: string, path: string, host: CgroupHost): Promise<void> {
  for (let look = 1; ; look += 1) {
    for (const child of await childrenOf(directory)) await removeEmpty(child, path, host);
    try {
      await rmdir(directory);
      return;
    } catch (error) {
      if (hasCode(error, "ENOENT")) return;
      if (look === removalLooks || !hasCode(error, "EBUSY", "ENOTEMPTY"))
        throw new ShimError(
          "precondition",
          `remove cgroup "${path}": ${messageOf(error)}`,
          {},
          { cause: error },
        );
    }
    await wait(host.pauseMs);
  }
}

async function childrenOf(directory: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(directory, name));
  } catch (error) {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  }
}

interface CgroupMount {
  readonly directory: string;
  readonly controllers: readonly string[];
}

/** Version 2 when the memory controller is not one of version 1. */
async function readHierarchies(host: CgroupHost): Promise<Hierarchies> {
  const mounts = new Map<string, string>();
  for (const { directory, controllers } of await readMounts(host))
    for (const name of controllers) if (!mounts.has(name)) mounts.set(name, directory);
  if (mounts.size === 0) throw unsupported("the cgroups of this host are not mounted here");
  return { version: mounts.has("memory") || !mounts.has(unified) ? 1 : 2, mounts };
}

async function allMounts(host: CgroupHost): Promise<ReadonlySet<string>> {
  return new Set((await readMounts(host)).map(({ directory }) => directory));
}

/** Only mounts of whole hierarchies: names of cgroups count from their roots. */
async function readMounts({ mountTable }: CgroupHost): Promise<readonly CgroupMount[]> {
  const mounts: CgroupMount[] = [];
  for await (const lines of kernelFileLines(mountTable)) {
    for (const line of lines) {
      const [before = "", after = ""] = line.split(" - ");
      const [, , , root = "", directory = ""] = before.split(" ");
      const [type, , options = ""] = after.split(" ");
      if (root !== "/" || (type !== "cgroup" && type !== "cgroup2")) continue;
      mounts.push({ directory, controllers: type === "cgroup2" ? [unified] : options.split(",") });
    }
  }
  return mounts;
}

function words(text: string): readonly string[] {
  return text.split(/\s+/);
}

function unsupported(reason: string, cause?: unknown): ShimError {
  return new ShimError("unsupported", reason, {}, { cause });
}
