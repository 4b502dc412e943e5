/** Files of attachments, with path and format of dockershim and cri-dockerd. */
import { join } from "node:path";
import {
  inDirectory,
  ownTemporaryName,
  removeFileSync,
  replaceFileSync,
  sweepTemporaryFiles,
} from "../../lib/files/atomic-file.js";
import { createDirectory, namesIn } from "../../lib/files/directories.js";
import type { Flusher } from "../../lib/files/flusher.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { readRegularFileSync } from "../../lib/files/state-files.js";
import type { CniArgument } from "./invoke-plugin.js";
import {
  formatJson,
  isList,
  isObject,
  parseJson,
  stringAt,
  type JsonObject,
} from "../../lib/json/exact-json.js";

/** The cache directories of dockershim, cri-dockerd and the Go library. */
export const legacyResultDirs = ["/var/lib/cni/cache/results", "/var/lib/cni/results"] as const;

const fileMode = 0o600;
const directoryMode = 0o700;
const largestFileBytes = 16 * 1024 * 1024;
/** The Go library skips such names when it lists the entries. */
const temporaryPrefix = ".dockershim-";

/** Entries of one container, and paths of unreadable files with its id in their names. */
export interface FoundEntries {
  readonly entries: readonly CacheEntry[];
  readonly corrupt: readonly string[];
}

export class ResultCache {
  readonly #ownDir: string;
  readonly #dirs: readonly string[];
  /** Names of what this process has attached, by container: it is nowhere else. */
  readonly #written = new Map<string, Set<string>>();

  /** Entries lie in `results` below `cacheDir`; `legacyDirs` are only read and cleaned. */
  constructor(
    cacheDir: string,
    private readonly log: Pick<Logger, "warn">,
    legacyDirs: readonly string[] = legacyResultDirs,
    private readonly flusher?: Flusher,
  ) {
    this.#ownDir = join(cacheDir, "results");
    this.#dirs = [...new Set([this.#ownDir, ...legacyDirs])];
  }

  /** Makes the directory and removes what crashed writers left. */
  async open(): Promise<void> {
    await createDirectory(this.#ownDir, directoryMode);
    // Another instance, with another state directory, may be writing here: it repeats a lost write.
    sweepTemporaryFiles(this.#ownDir, { patterns: [ownTemporaryName] });
  }

  /** Throws as `fileError`. Nobody waits for the flush: after a power cut only addresses are left to free. */
  async write(entry: CacheEntry): Promise<void> {
    const { flusher } = this;
    const path = join(this.#ownDir, cacheFileName(entry));
    const isNew = entry.phase === "adding" && entry.result === undefined;
    await inDirectory(this.#ownDir, directoryMode, () => {
      const flush = flusher && { flusher, isNew };
      replaceFileSync(path, formatCacheEntry(entry), { mode: fileMode, temporaryPrefix, flush });
    });
    if (!isNew) return;
    const names = this.#written.get(entry.containerId) ?? new Set();
    this.#written.set(entry.containerId, names.add(cacheFileName(entry)));
  }

  /** What this process has written of one attachment that it has begun, and not removed since. */
  written(key: EntryKey): CacheEntry | undefined {
    const name = cacheFileName(key);
    if (this.#written.get(key.containerId)?.has(name) !== true) return undefined;
    const entry = this.#read(join(this.#ownDir, name), name, key.containerId);
    return entry === "corrupt" ? undefined : entry;
  }

  /** Entries of one container, each attachment once, our own directory first. */
  async find(containerId: string): Promise<FoundEntries> {
    const found = new Map<string, CacheEntry>();
    const corrupt: string[] = [];
    const written = this.#written.get(containerId);
    const listed =
      written === undefined
        ? await Promise.all(
            this.#dirs.map(async (directory) => ({ directory, names: await namesIn(directory) })),
          )
        : [{ directory: this.#ownDir, names: [...written] }];
    for (const { directory, names } of listed) {
      for (const name of names) {
        // The name contains the id, but only the content proves to which container the file belongs.
        if (!name.includes(`-${containerId}-`)) continue;
        const path = join(directory, name);
        const entry = this.#read(path, name, containerId);
        if (entry === "corrupt") corrupt.push(path);
        else if (entry?.containerId === containerId && !found.has(name)) found.set(name, entry);
      }
    }
    return { entries: [...found.values()], corrupt };
  }

  /** All readable entries of our own directory. */
  async list(): Promise<readonly CacheEntry[]> {
    const entries: CacheEntry[] = [];
    for (const name of await namesIn(this.#ownDir)) {
      if (name.startsWith(".")) continue;
      const entry = this.#read(join(this.#ownDir, name), name);
      if (entry !== undefined && entry !== "corrupt") entries.push(entry);
    }
    return entries;
  }

  /** Removes the entry from all directories. After a power cut it may be back, and is torn down once more. */
  remove(key: EntryKey): void {
    const name = cacheFileName(key);
    const written = this.#written.get(key.containerId);
    for (const directory of written?.has(name) === true ? [this.#ownDir] : this.#dirs)
      removeFileSync(join(directory, name), this.flusher);
    written?.delete(name);
    if (written?.size === 0) this.#written.delete(key.containerId);
  }

  /** Removes files that `find` could not read. */
  removeCorrupt(paths: readonly string[]): void {
    for (const path of paths) removeFileSync(path, this.flusher);
  }

  #read(path: string, name: string, containerId?: string): CacheEntry | "corrupt" | undefined {
    const content = readRegularFileSync(path, largestFileBytes);
    if (content.kind === "absent") return undefined;
    try {
      if (content.kind === "unfit") throw new Error(content.reason);
      const entry = parseCacheEntry(Buffer.from(content.bytes).toString("utf8"), name, containerId);
      // Also keeps names in the content from leading out of the directory when the entry is removed.
      if (cacheFileName(entry) !== name) throw new Error("its name belongs to another attachment");
      return entry;
    } catch (error) {
      // Listings skip files of other programs without a log line.
      if (containerId !== undefined) {
        this.log.warn({ path, err: messageOf(error) }, "cannot read a cached network attachment");
      }
      return "corrupt";
    }
  }
}

/** One attachment, in the file format of the Go library (`cniCacheV1`). */

export interface CacheEntry {
  readonly containerId: string;
  readonly ifName: string;
  readonly networkName: string;
  /** `CNI_NETNS` of the ADD; absent in files of the old library. */
  readonly netns?: string;
  /** Text of the network list of the ADD; absent in files of very old libraries, which hold a bare result. */
  readonly config?: string;
  readonly cniArgs: readonly CniArgument[];
  readonly capabilityArgs: JsonObject;
  /** Result of the last plugin that succeeded. */
  readonly result?: JsonObject;
  /** Absent in entries of other programs. */
  readonly phase?: CachePhase;
  /** `NamespaceLook.identity` of `netns`; absent like `phase`. */
  readonly netnsIdentity?: string;
}

type EntryKey = Pick<CacheEntry, "networkName" | "containerId" | "ifName">;

/** `adding` from before the first plugin until after the last; `deleting` from the first DEL on. */
export type CachePhase = "adding" | "added" | "deleting";

const kind = "cniCacheV1";
/** A key that the library does not know and skips. */
const ownKey = "dockershim";
const phases: readonly string[] = ["adding", "added", "deleting"] satisfies CachePhase[];

export function cacheFileName(entry: EntryKey): string {
  return `${entry.networkName}-${entry.containerId}-${entry.ifName}`;
}

export function formatCacheEntry(entry: CacheEntry): string {
  const { netns = "", config, result, phase, netnsIdentity } = entry;
  return formatJson({
    kind,
    containerId: entry.containerId,
    ...(config === undefined ? {} : { config: Buffer.from(config).toString("base64") }),
    ifName: entry.ifName,
    networkName: entry.networkName,
    ...(netns === "" ? {} : { netns }),
    cniArgs: entry.cniArgs,
    capabilityArgs: entry.capabilityArgs,
    ...(result === undefined ? {} : { result }),
    ...(phase === undefined
      ? {}
      : { [ownKey]: { phase, ...(netnsIdentity === undefined ? {} : { netnsIdentity }) } }),
  });
}

/**
 * A file of another kind is a bare result without its container: accepted with a `containerId` and a name of
 * the form `<network>-<container>-<interface>`. Throws `invalid`.
 */
export function parseCacheEntry(text: string, fileName: string, containerId?: string): CacheEntry {
  const value = parseJson(text);
  if (!isObject(value)) throw new ShimError("invalid", "not a JSON object");
  if (value["kind"] !== kind) return bareResult(value, fileName, containerId);
  const [id, ifName, networkName] = ["containerId", "ifName", "networkName"].map((key) =>
    stringAt(value, key),
  );
  if (id === undefined || ifName === undefined || networkName === undefined) {
    throw new ShimError("invalid", "container, interface or network are missing");
  }
  const { config, netns, capabilityArgs, result } = value;
  const own = value[ownKey];
  const [phase, netnsIdentity] = ["phase", "netnsIdentity"].map((key) =>
    isObject(own) ? stringAt(own, key) : undefined,
  );
  return {
    containerId: id,
    ifName,
    networkName,
    ...(typeof netns === "string" && netns !== "" ? { netns } : {}),
    ...(typeof config === "string" ? { config: Buffer.from(config, "base64").toString("utf8") } : {}),
    cniArgs: isList(value["cniArgs"]) ? value["cniArgs"].flatMap((pair) => (isPair(pair) ? [pair] : [])) : [],
    capabilityArgs: isObject(capabilityArgs) ? capabilityArgs : {},
    ...(isObject(result) ? { result } : {}),
    ...(isPhase(phase) ? { phase } : {}),
    ...(netnsIdentity === undefined ? {} : { netnsIdentity }),
  };
}

function bareResult(result: JsonObject, fileName: string, containerId: string | undefined): CacheEntry {
  const [networkName, ifName, ...more] = containerId === undefined ? [] : fileName.split(`-${containerId}-`);
  if (containerId === undefined || !networkName || !ifName || more.length > 0 || !looksLikeResult(result)) {
    throw new ShimError("invalid", `its kind is not ${JSON.stringify(kind)}`);
  }
  return { containerId, ifName, networkName, cniArgs: [], capabilityArgs: {}, result };
}

function looksLikeResult(value: JsonObject): boolean {
  return ["cniVersion", "ips", "ip4", "ip6"].some((key) => key in value);
}

function isPair(value: unknown): value is [string, string] {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "string");
}

function isPhase(value: string | undefined): value is CachePhase {
  return value !== undefined && phases.includes(value);
}
