/** The configuration files of a kubelet: that of `--config`, and those of the directory `--config-dir`. */
import { join } from "node:path/posix";
import { messageOf } from "../../lib/errors.js";
import type { KubeletConfigFacts, KubeletSetting } from "../facts/facts.js";
import type { NodeFiles } from "../files/node-files.js";

/** Undefined when there is no such file. Of several YAML documents the kubelet reads the first. */
export async function readConfig(files: NodeFiles, path: string): Promise<KubeletConfigFacts | undefined> {
  const reading = await files.read(path);
  if (reading.kind === "absent") return undefined;
  const values = new Map<string, KubeletSetting | undefined>();
  if (reading.kind === "unreadable") return { path, text: "", values, problem: reading.reason };
  const { path: file, text } = reading;
  let problem: string | undefined;
  try {
    const { isAlias, isMap, isScalar, LineCounter, parseAllDocuments } = await import("../../lib/yaml.js");
    const lineCounter = new LineCounter();
    const [document] = [...parseAllDocuments(text, { lineCounter })];
    const [error] = document?.errors ?? [];
    if (error !== undefined) {
      problem = `line ${lineCounter.linePos(error.pos[0]).line}: ${error.message.split("\n")[0] ?? ""}`;
    } else if (document === undefined || !isMap(document.contents)) {
      problem = "is not a YAML mapping";
    } else {
      for (const { key, value: written } of document.contents.items) {
        const value = isAlias(written) ? written.resolve(document) : written;
        if (!isScalar(key) || !isScalar(value)) continue;
        const scalar: unknown = value.value;
        const [start] = (isAlias(written) ? written.range : value.range) ?? [0];
        const { line } = lineCounter.linePos(start);
        if (scalar === null) values.set(String(key.value), undefined);
        else if (typeof scalar === "string" || typeof scalar === "number" || typeof scalar === "boolean")
          values.set(String(key.value), { value: String(scalar), path: file, line });
      }
    }
  } catch (error) {
    problem = messageOf(error);
  }
  return { path: file, text, values, problem };
}

/** The files `*.conf` below a directory that is no link, in the order in which the kubelet merges them. */
export async function readConfigDirectory(
  files: NodeFiles,
  directory: string,
): Promise<readonly KubeletConfigFacts[]> {
  const kind = await files.kindOf(directory);
  if (kind === "absent")
    return [{ path: directory, text: "", values: new Map(), problem: "there is no such directory" }];
  return kind === "directory" ? walk(files, directory) : [];
}

async function walk(files: NodeFiles, directory: string): Promise<readonly KubeletConfigFacts[]> {
  const found: KubeletConfigFacts[] = [];
  for (const name of await files.names(directory)) {
    const path = join(directory, name);
    if ((await files.kindOf(path)) === "directory") found.push(...(await walk(files, path)));
    else if (name.endsWith(".conf")) {
      const config = await readConfig(files, path);
      const problem = "is a link that leads nowhere";
      found.push(config ?? { path, text: "", values: new Map(), problem });
    }
  }
  return found;
}

/** A later file replaces single values; null in it brings the default back. */
export function mergeSettings(configs: readonly KubeletConfigFacts[]): ReadonlyMap<string, KubeletSetting> {
  const merged = new Map<string, KubeletSetting>();
  for (const [key, setting] of configs.flatMap(({ values }) => [...values])) {
    if (setting === undefined) merged.delete(key);
    else merged.set(key, setting);
  }
  return merged;
}
