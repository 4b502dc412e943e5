import { ShimError } from "../lib/errors.js";
import { quote } from "../domain/field-errors.js";
import { normalizePath } from "../plan/paths.js";
import type { Engine } from "../ports/engine.js";

/**
 * The directory that `subPath` (relative) leads to in the image that container `id` was made of and has not been started
 * with: relative, without links, empty for the root. Links are followed within the image, as a process in it would.
 * `precondition` when there is nothing, or no directory.
 */
export async function findImageDirectory(
  id: string,
  subPath: string,
  engine: Pick<Engine, "statArchive">,
  signal: AbortSignal,
): Promise<string> {
  let found = "/";
  for (const part of normalizePath(subPath).split("/")) {
    if (part === "") continue;
    found = found === "/" ? `/${part}` : `${found}/${part}`;
    let stat = await engine.statArchive(id, found, signal);
    if (stat !== undefined && stat.linkTarget !== "") {
      // The end of a whole chain of links, as the engine has resolved it within the container.
      found = stat.linkTarget;
      stat = await engine.statArchive(id, found, signal);
    }
    if (stat === undefined) throw notThere(subPath, "no such directory in the image");
    if (!stat.isDirectory) throw notThere(subPath, `${quote(found)} is not a directory in the image`);
  }
  return found.slice(1);
}

function notThere(subPath: string, reason: string): ShimError {
  return new ShimError("precondition", `sub path ${quote(subPath)}: ${reason}`);
}
