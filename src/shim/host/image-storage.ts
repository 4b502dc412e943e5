/** Where the engine keeps images, their layers, and the writable layers of containers. */
import { lstat, readFile, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import type { NodeFacts } from "../../domain/node-facts.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import type { LayerDirectory } from "../ports/host.js";
import type { Snapshot } from "../../domain/snapshot.js";
import { ProcFiles, readMounts } from "./processes/proc-files.js";

/** containerd's default. */
const containerdRoot = "/var/lib/containerd";

/**
 * The engine's data root with a graph driver, else the root of the containerd that the engine uses: one of
 * its own below the data root, or that of the host. Where both are there, the one that was written to last;
 * the data root where neither is to be found.
 */
export async function imageDirectory(
  {
    dockerRootDir,
    imageStore,
    storageDriver,
  }: Pick<NodeFacts, "dockerRootDir" | "imageStore" | "storageDriver">,
  systemRoot = containerdRoot,
): Promise<string> {
  if (imageStore === "graph") return dockerRootDir;
  const roots = [join(dockerRootDir, "containerd", "daemon"), systemRoot];
  const written = await Promise.all(
    roots.map(async (root) => {
      const database = join(root, `io.containerd.snapshotter.v1.${storageDriver}`, "metadata.db");
      return { root, atMs: (await stat(database).catch(() => undefined))?.mtimeMs ?? -1 };
    }),
  );
  const latest = written.reduce((one, other) => (other.atMs > one.atMs ? other : one));
  return latest.atMs < 0 ? dockerRootDir : latest.root;
}

/** As the port says. */
export async function layerDirectories(
  layers: readonly string[],
  path: string,
): Promise<readonly LayerDirectory[] | undefined> {
  const directories: LayerDirectory[] = [];
  for (const layer of layers) {
    // Parts of the path are looked up one by one: a whiteout of a parent hides, too.
    const kind = await lookUp(layer, path);
    if (kind === "directory") directories.push(await named(layer, path));
    else if (kind === "hides") break;
    else if (path === "") return undefined;
  }
  return directories;
}

async function lookUp(layer: string, path: string): Promise<"directory" | "missing" | "hides"> {
  let current = layer;
  for (const part of ["", ...path.split("/")]) {
    current = join(current, part);
    try {
      // Whiteouts are character devices. Any other file that is not a directory hides the layers below, too.
      if (!(await lstat(current)).isDirectory()) return "hides";
    } catch (error) {
      if (hasCode(error, "ENOENT")) return "missing";
      throw fileError("look at layer", current, error);
    }
  }
  return "directory";
}

async function named(layer: string, path: string): Promise<LayerDirectory> {
  const directory = dirname(layer);
  // Older engines make no link.
  const link = (await readFile(join(directory, "link"), "utf8").catch(() => "")).trim();
  const isName = /^[A-Z0-9]+$/.test(link);
  return {
    path: join(layer, path),
    shortPath: isName ? join(dirname(directory), "l", link, path) : undefined,
  };
}

export type EngineStorage = Pick<NodeFacts, "dockerRootDir" | "imageStore" | "storageDriver">;

export class WritableLayerDirectories {
  /** By container id, from the last look at the mount table. A restart keeps the directory. */
  #mounted: ReadonlyMap<string, string> = new Map();

  constructor(
    private readonly storage: EngineStorage,
    private readonly proc = new ProcFiles(),
  ) {}

  /**
   * As the graph driver names it (overlay2); with the containerd image store the upper directory of the
   * overlay that the engine has mounted for the container. Undefined for drivers that copy whole file
   * systems, and for directories that are not in this program's reach.
   */
  async directoryOf({ id, graphDriver }: Pick<Snapshot, "id" | "graphDriver">): Promise<string | undefined> {
    const directory = graphDriver["UpperDir"] ?? (await this.#upperDirectory(id));
    if (directory === undefined || !isAbsolute(directory)) return undefined;
    const found = await stat(directory).catch(() => undefined);
    return found?.isDirectory() === true ? directory : undefined;
  }

  /** A container may have changed its own mount table; the node's has thousands of lines. */
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
