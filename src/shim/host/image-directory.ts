/** Where the engine keeps images, and what containers write. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { NodeFacts } from "../domain/node-facts.js";

/** Of a containerd that was not told otherwise. */
const containerdRoot = "/var/lib/containerd";

/**
 * The engine's data root with a graph driver, else the root of the containerd that the engine uses: one of its own below
 * the data root, or that of the host. Where both are there, the one that was written to last; the data root where neither
 * is to be found.
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
