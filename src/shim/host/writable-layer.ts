/** Where on this host the files are that containers write. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import type { NodeFacts } from "../domain/node-facts.js";
import type { Snapshot } from "../domain/snapshot.js";
import { readMounts } from "./mount-table.js";
import { ProcFiles } from "./processes/proc-files.js";

export type EngineStorage = Pick<NodeFacts, "dockerRootDir" | "imageStore" | "storageDriver">;

export class WritableLayerDirectories {
  /** By container id, as the node's mount table was when it was read last. A container has the same one after a restart. */
  #mounted: ReadonlyMap<string, string> = new Map();

  constructor(
    private readonly storage: EngineStorage,
    private readonly proc = new ProcFiles(),
  ) {}

  /**
   * As the graph driver names it (overlay2); with the containerd image store the upper directory of the overlay that the
   * engine has mounted for the container. Undefined for drivers that copy whole file systems, and for directories that are
   * not in this program's reach.
   */
  async directoryOf({ id, graphDriver }: Pick<Snapshot, "id" | "graphDriver">): Promise<string | undefined> {
    const directory = graphDriver["UpperDir"] ?? (await this.#upperDirectory(id));
    if (directory === undefined || !isAbsolute(directory)) return undefined;
    const found = await stat(directory).catch(() => undefined);
    return found?.isDirectory() === true ? directory : undefined;
  }

  /**
   * What a container says of its own mounts is no proof: it may have mounted something else. The table is read for what it
   * does not know yet only, because it has thousands of lines on a full node.
   */
  async #upperDirectory(id: string): Promise<string | undefined> {
    if (this.storage.imageStore !== "containerd") return undefined;
    if (!this.#mounted.has(id)) this.#mounted = await this.#upperDirectories();
    return this.#mounted.get(id);
  }

  /** The engine mounts the root file system of a container at `DATA ROOT/rootfs/SNAPSHOTTER/ID`. */
  async #upperDirectories(): Promise<ReadonlyMap<string, string>> {
    const { dockerRootDir, storageDriver } = this.storage;
    const found = new Map<string, string>();
    // The kernel knows no links in mount points.
    const root = await realpath(dockerRootDir).catch(() => dockerRootDir);
    const parent = join(root, "rootfs", storageDriver, "/");
    for await (const { mountPoint, type, superOptions } of readMounts(this.proc, "self")) {
      if (!mountPoint.startsWith(parent)) continue;
      const id = mountPoint.slice(parent.length);
      const upper = type === "overlay" ? /(?:^|,)upperdir=([^,]+)/.exec(superOptions)?.[1] : undefined;
      // A later line is of a mount on top of the earlier one.
      if (upper === undefined) found.delete(id);
      else found.set(id, upper);
    }
    return found;
  }
}
