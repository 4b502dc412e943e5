/** Files, directories and standard input → manifest files. */
import { readFile, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { ManifestFile } from "./documents.js";

export interface FileOptions {
  /** Also the directories below. */
  readonly recursive: boolean;
  readonly stdin?: AsyncIterable<string | Uint8Array> | undefined;
  readonly signal: AbortSignal;
}

/** A larger file is not a manifest: Kubernetes takes objects of 1.5 MiB. */
const maximumBytes = 64 * 1024 * 1024;

const kustomizations = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/** The files that `names` stand for, in their order, as kubectl reads them. `-` is standard input. */
export async function readManifestFiles(
  names: readonly string[],
  options: FileOptions,
): Promise<readonly ManifestFile[]> {
  if (names.length === 0)
    throw new ShimError("invalid", "name at least one manifest file, or - for standard input");
  if (new Set(names).size < names.length) throw new ShimError("invalid", "a manifest file is named twice");
  const files: ManifestFile[] = [];
  for (const name of names) {
    try {
      files.push(...(await readOne(name, options)));
    } catch (error) {
      if (options.signal.aborted) throw error;
      const reason = hasCode(error, "ENOENT") ? "there is no such file" : messageOf(error);
      throw new ShimError("invalid", `read "${name}": ${reason}`, {}, { cause: error });
    }
  }
  return files;
}

async function readOne(name: string, options: FileOptions): Promise<readonly ManifestFile[]> {
  const { signal } = options;
  if (name === "-") return [{ name: "standard input", text: await readStandardInput(options) }];
  const about = await stat(name);
  if (!about.isDirectory()) return [{ name, text: await readText(name, about.size, signal) }];
  const paths = await manifestPaths(name, options.recursive);
  if (paths.length === 0) {
    const below = options.recursive ? "" : " (-R looks into the directories below)";
    throw new ShimError("invalid", `no file *.yaml, *.yml or *.json is in the directory${below}`);
  }
  const files: ManifestFile[] = [];
  for (const path of paths)
    files.push({ name: path, text: await readText(path, (await stat(path)).size, signal) });
  return files;
}

async function manifestPaths(directory: string, recursive: boolean): Promise<readonly string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  entries.sort((left, right) => (left.name < right.name ? -1 : 1));
  if (entries.some(({ name }) => kustomizations.includes(name)))
    throw new ShimError(
      "invalid",
      `the directory "${directory}" is for kustomize: run ` +
        `\`kubectl kustomize ${directory} | dockershim play -\``,
    );
  const paths: string[] = [];
  for (const entry of entries) {
    const path = join(directory, entry.name);
    // Links to directories are not followed, so that no directory is read twice.
    if (entry.isDirectory()) {
      if (recursive) paths.push(...(await manifestPaths(path, recursive)));
    } else if (/\.(yaml|yml|json)$/.test(entry.name)) paths.push(path);
  }
  return paths;
}

async function readText(path: string, bytes: number, signal: AbortSignal): Promise<string> {
  if (bytes > maximumBytes) throw tooLarge();
  return readFile(path, { encoding: "utf8", signal });
}

async function readStandardInput({ stdin }: FileOptions): Promise<string> {
  if (stdin === undefined) throw new ShimError("invalid", "there is no standard input");
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    const part = Buffer.from(chunk);
    bytes += part.length;
    if (bytes > maximumBytes) throw tooLarge();
    chunks.push(part);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function tooLarge(): ShimError {
  return new ShimError("invalid", `it is larger than ${maximumBytes / 1024 / 1024} MiB`);
}

/** `3`, `web=2` → counts. */
export function parseReplicas(texts: readonly string[]): {
  readonly all: number | undefined;
  readonly byName: ReadonlyMap<string, number>;
} {
  const byName = new Map<string, number>();
  let all: number | undefined;
  for (const text of texts) {
    const [, name, digits = ""] = /^(?:([a-z0-9][-a-z0-9.]*)=)?(\d{1,4})$/.exec(text) ?? [];
    if (digits === "") {
      const message = `--replicas ${JSON.stringify(text)}: must be a number, or NAME=NUMBER`;
      throw new ShimError("invalid", message);
    }
    if (name === undefined) all = Number(digits);
    else byName.set(name, Number(digits));
  }
  return { all, byName };
}
