import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../lib/errors.js";
import { hasCode } from "../lib/files/file-errors.js";
import type { Logger } from "../lib/log.js";
import type { CdiSpecDocument } from "../ports/host.js";
import { readNodeFile } from "./node-files.js";

const limitBytes = 4 * 1024 * 1024;

/**
 * Parses every `.json` and `.yaml` file of the CDI directories, later ones with higher priority. A missing directory holds
 * none. What cannot be read is logged and left out: a broken file of one vendor must not cost the devices of another,
 * and a device that was in it is then refused as unknown.
 */
export async function readCdiSpecs(
  directories: readonly string[],
  log: Pick<Logger, "warn">,
): Promise<readonly CdiSpecDocument[]> {
  const documents: CdiSpecDocument[] = [];
  for (const [priority, directory] of directories.entries()) {
    for (const name of await specFiles(directory, log)) {
      const path = join(directory, name);
      try {
        documents.push({ path, priority, content: await parse(path) });
      } catch (error) {
        log.warn({ path, err: messageOf(error) }, "CDI specification cannot be read, ignored");
      }
    }
  }
  return documents;
}

async function specFiles(directory: string, log: Pick<Logger, "warn">): Promise<readonly string[]> {
  try {
    return (await readdir(directory)).filter((name) => /\.(json|yaml)$/.test(name)).sort();
  } catch (error) {
    if (!hasCode(error, "ENOENT")) {
      log.warn({ path: directory, err: messageOf(error) }, "CDI directory cannot be read, ignored");
    }
    return [];
  }
}

async function parse(path: string): Promise<unknown> {
  const { parse: parseYaml } = await import("../lib/yaml.js");
  // JSON is YAML, too.
  return parseYaml(await readNodeFile(path, limitBytes));
}
