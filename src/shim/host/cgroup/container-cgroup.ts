/** Where the cgroup of a container is, in each hierarchy. */
import type { CgroupDirectories } from "../../ports/host.js";
import { type CgroupMounts, directoryOf, parseProcCgroup, unified } from "./cgroup-mounts.js";

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

  /** Of all hierarchies in which the container has a cgroup; undefined when there is none. */
  directories(): CgroupDirectories | undefined {
    const found = [...this.#paths.keys()].flatMap((controller) => {
      const directory = this.directory(controller);
      return directory === undefined ? [] : [[controller, directory] as const];
    });
    const path = this.#ownPath("memory") ?? this.#ownPath(unified);
    return found.length === 0 || path === undefined ? undefined : { path, directories: new Map(found) };
  }

  /** Up to the part with the id: the process may have made cgroups of its own below, as systemd and Docker in Docker do. */
  #ownPath(controller: string): string | undefined {
    const parts = this.#paths.get(controller)?.split("/") ?? [];
    const last = parts.findIndex((part) => part.includes(this.containerId));
    return last === -1 ? undefined : parts.slice(0, last + 1).join("/");
  }
}
