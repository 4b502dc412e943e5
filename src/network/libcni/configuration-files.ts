/** Reads and parses the files of a configuration directory, without a look at the installed plugins. */
import { constants, open, readdir } from "node:fs/promises";
import { extname, join } from "node:path";
import { messageOf } from "../../lib/errors.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import {
  appendPlugins,
  isNetworkName,
  parseDropIn,
  parseNetworkList,
  parseSinglePlugin,
  requireUsable,
  type NetworkList,
} from "./configuration.js";

const extensions: ReadonlySet<string> = new Set([".conf", ".conflist", ".json"]);
const largestFileBytes = 1024 * 1024;

export interface ConfigurationFile {
  readonly path: string;
  /** All text that was read for it, drop-ins included: different text is a different configuration. */
  readonly content: string;
  /** Absent when there is a problem. */
  readonly list?: NetworkList;
  readonly problem?: string;
}

/** All of a directory, by bytes of names; unreadable ones have a problem. None without it; `fileError`. */
export async function readConfigurationFiles(directory: string): Promise<readonly ConfigurationFile[]> {
  const files: ConfigurationFile[] = [];
  for (const name of await sortedFiles(directory)) {
    if (!extensions.has(extname(name))) continue;
    const file = await readConfigurationFile(join(directory, name), directory);
    if (file !== undefined) files.push(file);
  }
  return files;
}

async function readConfigurationFile(
  path: string,
  directory: string,
): Promise<ConfigurationFile | undefined> {
  let content = "";
  try {
    const text = await readText(path);
    // Removed since the directory was listed.
    if (text === undefined) return undefined;
    content = text;
    if (!path.endsWith(".conflist"))
      return { path, content, list: requireUsable(parseSinglePlugin(text, path)) };
    let list = parseNetworkList(text, path);
    for (const dropIn of await readDropIns(list, directory)) {
      content += `\n${dropIn.path}\n${dropIn.text}`;
      list = appendPlugins(list, [parseDropIn(dropIn.text, dropIn.path)]);
    }
    return { path, content, list: requireUsable(list) };
  } catch (error) {
    return { path, content, problem: messageOf(error) };
  }
}

/** `*.conf` in the directory named after the network, further plugins for the end of the list. */
async function readDropIns(
  list: NetworkList,
  directory: string,
): Promise<readonly { readonly path: string; readonly text: string }[]> {
  if (list.loadOnlyInlinedPlugins || !isNetworkName(list.name)) return [];
  const dropIns = [];
  for (const name of await sortedFiles(join(directory, list.name))) {
    if (extname(name) !== ".conf") continue;
    const path = join(directory, list.name, name);
    const text = await readText(path);
    if (text !== undefined) dropIns.push({ path, text });
  }
  return dropIns;
}

async function sortedFiles(directory: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    const names = entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
    return names.sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
  } catch (error) {
    if (hasCode(error, "ENOENT")) return [];
    throw fileError("list", directory, error);
  }
}

/** Follows links, of which mounted ConfigMaps consist. Never waits for the writer of a FIFO. */
async function readText(path: string): Promise<string | undefined> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const status = await file.stat();
    if (!status.isFile()) throw new Error("not a regular file");
    if (status.size > largestFileBytes) throw new Error(`larger than ${largestFileBytes} bytes`);
    return await file.readFile("utf8");
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw fileError("read", path, error);
  }
}
