/** Where the binary of a plugin lies. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { ShimError } from "../../shim/lib/errors.js";

export interface FoundPlugin {
  readonly type: string;
  readonly path: string;
  /** Differs whenever another binary lies under the path. */
  readonly fingerprint: string;
}

/**
 * The first regular file `<directory>/<type>`, links followed. Whether it can be executed shows when it is run.
 * `invalid` for a type that is no file name, `unavailable` when no directory has it: it may be installed later.
 */
export async function findPlugin(type: string, binDirs: readonly string[]): Promise<FoundPlugin> {
  if (type === "") throw new ShimError("invalid", "no plugin name provided");
  if (type.includes("/") || type.includes("\0") || type === "." || type === "..") {
    throw new ShimError("invalid", `invalid plugin name: ${type}`);
  }
  if (binDirs.length === 0) throw new ShimError("invalid", "no paths provided");
  for (const directory of binDirs) {
    const path = join(directory, type);
    const status = await stat(path, { bigint: true }).catch(() => undefined);
    if (status?.isFile() !== true) continue;
    const { dev, ino, size, mtimeNs, ctimeNs } = status;
    return { type, path, fingerprint: [path, dev, ino, size, mtimeNs, ctimeNs].map(String).join(" ") };
  }
  const text = `failed to find plugin ${JSON.stringify(type)} in path [${binDirs.join(" ")}]`;
  throw new ShimError("unavailable", text, { plugin: type });
}
