/** Limits that Docker's API has no field for, written to the cgroup files of a running container. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ShimError } from "../base/errors.js";
import type { CgroupSettings } from "../ports/host.js";

const cgroupRoot = "/sys/fs/cgroup";

export async function applyCgroup(
  containerId: string,
  pid: number,
  settings: CgroupSettings,
  cgroupVersion: 1 | 2,
): Promise<void> {
  const text = await readFile(`/proc/${String(pid)}/cgroup`, "utf8").catch(() => "");
  if (!text.includes(containerId)) {
    throw new ShimError("unsupported", "the cgroup of the container is out of reach on this host", { containerId });
  }
  if (Object.keys(settings.unified).length > 0) {
    if (cgroupVersion !== 2) throw new ShimError("invalid", "linux.resources.unified needs cgroup version 2");
    const directory = pathOf(text, "");
    for (const [name, value] of Object.entries(settings.unified)) await write(join(directory, name), value);
  }
  for (const { pageSize, limitBytes } of settings.hugepages) {
    const file = cgroupVersion === 2 ? `hugetlb.${pageSize}.max` : `hugetlb.${pageSize}.limit_in_bytes`;
    await write(join(pathOf(text, cgroupVersion === 2 ? "" : "hugetlb"), file), String(limitBytes));
  }
}

/** Directory of a controller; lines are `number:controllers:path`, with no controllers for version 2. */
export function pathOf(procCgroup: string, controller: string): string {
  for (const line of procCgroup.split("\n")) {
    const [, controllers = "", path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (path === undefined || !controllers.split(",").includes(controller)) continue;
    return join(cgroupRoot, controller, path);
  }
  throw new ShimError("unsupported", `this host has no cgroup controller "${controller === "" ? "unified" : controller}"`);
}

async function write(path: string, value: string): Promise<void> {
  try {
    await writeFile(path, value, { flag: "r+" });
  } catch (error) {
    throw new ShimError("invalid", `write "${value}" to "${path}": ${String(error)}`, { path }, { cause: error });
  }
}
