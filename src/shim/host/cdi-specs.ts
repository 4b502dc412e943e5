import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../base/errors.js";
import type { CdiSpecDocument } from "../ports/host.js";

/**
 * Parses every `.json`, `.yaml` and `.yml` file of the CDI directories. A missing directory holds none. A file that
 * cannot be parsed is an error that names it: it may well be the one that defines the device that is asked for.
 */
export async function readCdiSpecs(directories: readonly string[]): Promise<readonly CdiSpecDocument[]> {
  const documents: CdiSpecDocument[] = [];
  for (const [priority, directory] of directories.entries()) {
    const names = await readdir(directory).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    });
    for (const name of names.filter((one) => /\.(json|ya?ml)$/.test(one)).sort()) {
      const path = join(directory, name);
      documents.push({ path, priority, content: await parse(path) });
    }
  }
  return documents;
}

async function parse(path: string): Promise<unknown> {
  const { parse: parseYaml } = await import("yaml");
  try {
    // JSON is YAML, too.
    return parseYaml(await readFile(path, "utf8"));
  } catch (error) {
    throw new ShimError("precondition", `CDI specification "${path}": ${messageOf(error)}`, { path }, { cause: error });
  }
}
