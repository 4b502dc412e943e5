/** Where the cgroup hierarchies of this host are mounted. */
import { basename, join } from "node:path";
import { ShimError } from "../../../lib/errors.js";
import { type ProcFiles, readMounts } from "../processes/proc-files.js";
import type { CgroupDirectories } from "../../ports/host.js";

interface CgroupMount {
  readonly mountPoint: string;
  /** The cgroup that is mounted there; others than those below it are out of reach. */
  readonly root: string;
}

/** Mounted hierarchies: v1 by controller (`memory`) or name (`name=systemd`), v2 by `unified`. */
export type CgroupMounts = ReadonlyMap<string, CgroupMount>;

/** The key of the v2 hierarchy: the text that /proc/<pid>/cgroup has in the place of its controllers. */
export const unified = "";

export async function readCgroupMounts(proc: ProcFiles): Promise<CgroupMounts> {
  const mounts = new Map<string, CgroupMount>();
  for await (const { root, mountPoint, type, superOptions } of readMounts(proc, "self")) {
    const keys = type === "cgroup2" ? [unified] : type === "cgroup" ? superOptions.split(",") : [];
    // A second mount of a hierarchy shows the same; the first is the conventional one.
    for (const key of keys) if (!mounts.has(key)) mounts.set(key, { mountPoint, root });
  }
  return mounts;
}

/** Paths of a process's cgroups by controller, from lines `number:controllers:path`. */
export function parseProcCgroup(text: string): ReadonlyMap<string, string> {
  const paths = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === undefined || path === undefined) continue;
    for (const controller of controllers.split(",")) paths.set(controller, path);
  }
  return paths;
}

/** The directory of cgroup `path` below a mount; `unsupported` when it lies outside of the mount. */
export function directoryOf({ mountPoint, root }: CgroupMount, path: string): string {
  const below = root === "/" ? path : path === root ? "/" : path.slice(root.length);
  const inside = root === "/" || path === root || path.startsWith(`${root}/`);
  if (!inside || path.split("/").includes("..")) {
    throw new ShimError(
      "unsupported",
      `the cgroup "${path}" is out of reach: "${mountPoint}" shows "${root}"`,
    );
  }
  return join(mountPoint, below);
}

export class ContainerCgroup {
  readonly #paths: ReadonlyMap<string, string>;

  /** `procCgroup`: the text of /proc/<pid>/cgroup of a process that is the container's. */
  constructor(
    private readonly containerId: string,
    procCgroup: string,
    private readonly mounts: CgroupMounts,
  ) {
    this.#paths = parseProcCgroup(procCgroup);
  }

  /** Undefined when the host has no such hierarchy or the container is not in it. */
  directory(controller: string): string | undefined {
    const mount = this.mounts.get(controller);
    const own = this.#ownPath(controller);
    return mount === undefined || own === undefined ? undefined : directoryOf(mount, own);
  }

  /** Directories in all hierarchies in which the container has a cgroup; undefined if there is none. */
  directories(): CgroupDirectories | undefined {
    const found = [...this.#paths.keys()].flatMap((controller) => {
      const directory = this.directory(controller);
      return directory === undefined ? [] : [[controller, directory] as const];
    });
    const path = this.#ownPath("memory") ?? this.#ownPath(unified);
    return found.length === 0 || path === undefined ? undefined : { path, directories: new Map(found) };
  }

  /** The unit of the system's systemd that this cgroup of v2 is, if it is one. */
  get scope(): string | undefined {
    const path = this.#ownPath(unified) ?? "";
    // Those of a rootless engine are units of the user's systemd.
    return path.endsWith(".scope") && !path.includes("/user@") ? basename(path) : undefined;
  }

  /** Up to the part with the id: processes such as systemd make cgroups of their own below it. */
  #ownPath(controller: string): string | undefined {
    const parts = this.#paths.get(controller)?.split("/") ?? [];
    const last = parts.findIndex((part) => part.includes(this.containerId));
    return last === -1 ? undefined : parts.slice(0, last + 1).join("/");
  }
}
