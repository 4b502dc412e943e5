/** A unit as systemd loads it: its file, its drop-ins in order, and whether it is enabled. Reads files only. */
import { basename, join } from "node:path/posix";
import type { NodeFiles } from "../files/node-files.js";
import { parseUnitText, type Problem, type UnitEntry } from "./unit-file.js";

/** systemd's order: the first directory that has a file of a name wins. */
export const unitDirectories = [
  "/etc/systemd/system",
  "/run/systemd/system",
  "/usr/local/lib/systemd/system",
  "/usr/lib/systemd/system",
  "/lib/systemd/system",
] as const;

export interface LoadedUnit {
  readonly name: string;
  /** On the node, after links. */
  readonly path: string;
  /** Files on the node, in the order in which systemd reads them. */
  readonly dropIns: readonly string[];
  readonly isMasked: boolean;
  /** Whether a link of a target, or of another unit, starts it. */
  readonly isEnabled: boolean;
  /** Such a link that `systemctl disable` does not remove. */
  readonly lastingLink: string | undefined;
  /** Those of the unit and its drop-ins, in order. */
  readonly entries: readonly UnitEntry[];
  readonly problems: readonly Problem[];
}

/** Undefined when no directory has the unit. */
export async function loadUnit(files: NodeFiles, name: string): Promise<LoadedUnit | undefined> {
  const directories = await distinctDirectories(files);
  for (const directory of directories) {
    const path = join(directory, name);
    if ((await files.kindOf(path)) === "absent") continue;
    const links = await linksTo(files, name);
    const isEnabled = links.length > 0;
    const lastingLink = links.find((link) => !/^\/(?:etc|run)\//.test(link));
    const target = basename(await files.resolve(path).catch(() => path));
    // Those of the unit that the name is an alias of, too.
    const folders = [...new Set([name, target].flatMap(dropInFolders))];
    const dropIns = await findDropIns(files, directories, folders);
    const isMasked = (await files.linkTarget(path)) === "/dev/null";
    const loaded = { name, dropIns, isMasked, isEnabled, lastingLink };
    if (isMasked) return { ...loaded, path, entries: [], problems: [] };
    const entries: UnitEntry[] = [];
    const problems: Problem[] = [];
    let unitPath = path;
    for (const file of [path, ...dropIns]) {
      const reading = await files.read(file);
      if (reading.kind === "read") {
        if (file === path) unitPath = reading.path;
        const text = parseUnitText(reading.path, reading.text);
        entries.push(...text.entries);
        problems.push(...text.problems);
      } else {
        const reason = reading.kind === "absent" ? "is a link that leads nowhere" : reading.reason;
        problems.push({ place: file, text: reason });
      }
    }
    return { ...loaded, path: unitPath, entries, problems };
  }
  return undefined;
}

/** `/lib` and `/usr/lib` are one directory on most nodes. */
async function distinctDirectories(files: NodeFiles): Promise<readonly string[]> {
  const resolved = await Promise.all(unitDirectories.map((directory) => files.resolve(directory)));
  return [...new Set(resolved)];
}

/** For `a-b.service`: those of the unit, of all whose names begin with `a-`, and of all services. */
function dropInFolders(name: string): readonly string[] {
  const [, stem = "", type = ""] = /^(.*)\.(\w+)$/.exec(name) ?? [];
  const prefixes = [...stem.matchAll(/-(?=.)/g)].map(({ index }) => `${stem.slice(0, index + 1)}.${type}.d`);
  return [`${name}.d`, ...prefixes.reverse(), `${type}.d`];
}

/** Sorted by file name over all directories; of one name, that of the first directory. */
async function findDropIns(
  files: NodeFiles,
  directories: readonly string[],
  folders: readonly string[],
): Promise<readonly string[]> {
  const found = new Map<string, string>();
  for (const directory of directories) {
    for (const folder of folders)
      for (const name of await files.names(join(directory, folder)))
        if (name.endsWith(".conf") && !found.has(name)) found.set(name, join(directory, folder, name));
  }
  const paths = [...found.values()].sort((a, b) => (basename(a) < basename(b) ? -1 : 1));
  const isMasked = await Promise.all(
    paths.map(async (path) => (await files.linkTarget(path)) === "/dev/null"),
  );
  return paths.filter((_path, index) => isMasked[index] !== true);
}

async function linksTo(files: NodeFiles, name: string): Promise<readonly string[]> {
  const links: string[] = [];
  for (const directory of await distinctDirectories(files))
    for (const folder of await files.names(directory))
      if (/\.(wants|requires)$/.test(folder) && (await files.names(join(directory, folder))).includes(name))
        links.push(join(directory, folder, name));
  return links;
}

/** Values of a key after systemd's rule for lists: an empty assignment forgets those before it. */
export function listValues(
  { entries }: Pick<LoadedUnit, "entries">,
  section: string,
  key: string,
): readonly UnitEntry[] {
  let values: UnitEntry[] = [];
  for (const entry of entries) {
    if (entry.section !== section || entry.key !== key) continue;
    values = entry.value === "" ? [] : [...values, entry];
  }
  return values;
}
