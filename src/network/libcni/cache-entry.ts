/** What is remembered of an attachment, in the file format of the Go library (`cniCacheV1`). */
import { ShimError } from "../../shim/lib/errors.js";
import type { CniArgument } from "./invoke.js";
import {
  formatJson,
  isList,
  isObject,
  parseJson,
  stringAt,
  type JsonObject,
} from "../../shim/lib/json/exact-json.js";

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
  /** Of the last plugin that succeeded. */
  readonly result?: JsonObject;
  /** How far it is; absent in entries that are not this program's. */
  readonly phase?: CachePhase;
  /** Of the namespace at `netns`, as `NetworkNamespaces` tells it; absent like `phase`. */
  readonly netnsIdentity?: string;
}

/**
 * `adding` from before the first plugin until after the last one, so that a crash between two plugins leaves a trace
 * of what must be undone; `deleting` from the first DEL on.
 */
export type CachePhase = "adding" | "added" | "deleting";

const kind = "cniCacheV1";
/** A key that the library does not know and skips. */
const ownKey = "dockershim";
const phases: readonly string[] = ["adding", "added", "deleting"] satisfies CachePhase[];

export function cacheFileName(entry: Pick<CacheEntry, "networkName" | "containerId" | "ifName">): string {
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
 * The entry in `text`. A file of another kind is a bare result, whose owner only its name tells: it is taken when
 * `containerId` is known and the name has the form `<network>-<container>-<interface>`. Throws `invalid`.
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
