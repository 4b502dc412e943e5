/** Directories of image layers, as the graph driver overlay2 keeps them: `ROOT/ID/diff`, and `ROOT/l/NAME` for short. */
import { lstat, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileError, hasCode } from "../lib/files/file-errors.js";
import type { LayerDirectory } from "../ports/host.js";

/** As the port says. */
export async function layerDirectories(
  layers: readonly string[],
  path: string,
): Promise<readonly LayerDirectory[] | undefined> {
  const directories: LayerDirectory[] = [];
  for (const layer of layers) {
    // Parts of the path are looked up one by one: a whiteout of a parent hides as well as one of the directory.
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
      // Whiteouts are character devices, and everything else that is no directory hides what is below, too.
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
  // A layer without one is an older engine's.
  const link = (await readFile(join(directory, "link"), "utf8").catch(() => "")).trim();
  const isName = /^[A-Z0-9]+$/.test(link);
  return {
    path: join(layer, path),
    shortPath: isName ? join(dirname(directory), "l", link, path) : undefined,
  };
}
