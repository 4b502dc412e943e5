/** Limits that Docker's API has no field for, written to the cgroup files of a running container. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../base/errors.js";
import { hasCode } from "../base/file-errors.js";
import type { CgroupSettings } from "../ports/host.js";
import {
  directoryOf,
  parseProcCgroup,
  readCgroupMounts,
  unified,
  type CgroupMounts,
} from "./cgroup-mounts.js";
import { isCgroupOf, ProcFiles } from "./proc-files.js";

export interface CgroupTarget {
  readonly containerId: string;
  /** A process of the container. */
  readonly pid: number;
  /** As the engine says. */
  readonly cgroupVersion: 1 | 2;
}

/** Limits that cgroup v2 names like this; what begins with `cgroup.` moves processes about and is no limit. */
const settingForm = /^(?!cgroup\.)[a-z]+(?:\.[A-Za-z0-9_]+)+$/;
/** As the kernel spells them in file names. */
const pageSizeForm = /^\d+[KMG]B$/;

/**
 * Writes `settings`. `invalid` for names that are none and for values that the kernel refuses, `unsupported` when the
 * cgroup is out of reach or the host has not the controller. A hugepage limit of 0 without a controller to set it is no
 * error: kubelets send one for each page size of the node.
 */
export async function applyCgroup(
  target: CgroupTarget,
  settings: CgroupSettings,
  proc = new ProcFiles(),
): Promise<void> {
  const text = target.pid > 1 ? await proc.text(target.pid, "cgroup") : undefined;
  if (text === undefined || !isCgroupOf(target.containerId, text)) {
    const { containerId } = target;
    throw new ShimError("unsupported", "the cgroup of the container is out of reach on this host", {
      containerId,
    });
  }
  const cgroup = new ContainerCgroup(target.containerId, parseProcCgroup(text), await readCgroupMounts(proc));
  const names = Object.entries(settings.unified);
  if (names.length > 0 && target.cgroupVersion !== 2) {
    throw new ShimError("invalid", "linux.resources.unified needs cgroup version 2");
  }
  for (const [name, value] of names) await writeSetting(cgroup, name, value);
  for (const { pageSize, limitBytes } of settings.hugepages) {
    await limitHugepages(cgroup, pageSize, limitBytes);
  }
}

class ContainerCgroup {
  constructor(
    private readonly containerId: string,
    private readonly paths: ReadonlyMap<string, string>,
    private readonly mounts: CgroupMounts,
  ) {}

  /** Undefined when the host has no such hierarchy or the container is not in it. */
  directory(controller: string): string | undefined {
    const mount = this.mounts.get(controller);
    const own = this.#ownPath(controller);
    return mount === undefined || own === undefined ? undefined : directoryOf(mount, own);
  }

  /** Up to the part with the id: the process may have made cgroups of its own below, as systemd and Docker in Docker do. */
  #ownPath(controller: string): string | undefined {
    const parts = this.paths.get(controller)?.split("/") ?? [];
    const last = parts.findIndex((part) => part.includes(this.containerId));
    return last === -1 ? undefined : parts.slice(0, last + 1).join("/");
  }
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

async function limitHugepages(cgroup: ContainerCgroup, pageSize: string, limitBytes: bigint): Promise<void> {
  if (!pageSizeForm.test(pageSize))
    throw new ShimError("invalid", `hugepages of "${pageSize}": not a page size`);
  const v1 = cgroup.directory("hugetlb");
  // Without it, a host of version 1 may still have the controller in the hierarchy of version 2.
  const directory = v1 ?? cgroup.directory(unified);
  const file = v1 === undefined ? "max" : "limit_in_bytes";
  const path = join(directory ?? "/", `hugetlb.${pageSize}.`);
  const written = directory !== undefined && (await write(path + file, String(limitBytes)));
  if (!written && limitBytes > 0n) throw noController(`hugepages of "${pageSize}"`);
  // Reservations count apart since Linux 5.7; without a limit they could take pages that the container may not use.
  if (written) await write(`${path}rsvd.${file}`, String(limitBytes));
}

function noController(what: string): ShimError {
  return new ShimError("unsupported", `${what}: this host has no cgroup controller for it`);
}

/** False when there is no such file. */
async function write(path: string, value: string): Promise<boolean> {
  try {
    await writeFile(path, value, { flag: "r+" });
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return false;
    const kind = hasCode(error, "EROFS") ? "unsupported" : "invalid";
    throw new ShimError(
      kind,
      `write "${value}" to "${path}": ${messageOf(error)}`,
      { path },
      { cause: error },
    );
  }
}
