/** What a node holds on behalf of pods: remembered attachments, reserved addresses, rules. */
import { readdir } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { namesIn } from "../../lib/files/directories.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import { readRegularFile } from "../../lib/files/state-files.js";
import type { CacheEntry, ResultCache } from "../libcni/cache.js";
import { parseCachedList, type NetworkList } from "../libcni/configuration.js";
import { isObject, stringAt } from "../../lib/json/exact-json.js";
import { addressFamilies, type AddressFamily } from "../iptables/iptables.js";
import type { NatTables } from "../cni/nat-rules.js";

/** Where the host-local plugin keeps its addresses unless its configuration says otherwise. */
export const hostLocalDirectory = "/var/lib/cni/networks";

/** A file of the host-local plugin: its name is the address, its content the owner. */
export interface ReservedAddress {
  readonly address: string;
  readonly networkName: string;
  /** The directory above the network's own. */
  readonly dataDir: string;
  readonly containerId: string;
  readonly ifName: string;
}

export interface Holdings {
  readonly cacheEntries: readonly CacheEntry[];
  readonly addresses: readonly ReservedAddress[];
  /** As `iptables-save -t nat` prints them. */
  readonly natTables: readonly { readonly family: AddressFamily; readonly save: string }[];
}

export interface HoldingsSource {
  readonly cache: Pick<ResultCache, "list">;
  readonly natTables: NatTables;
  /** Networks in use: their configuration may have another data directory. */
  readonly networks: readonly NetworkList[];
  readonly addressDir?: string;
}

const largestAddressFileBytes = 4096;

/** Reads everything and changes nothing. Throws when a part cannot be read. */
export async function readHoldings(source: HoldingsSource, signal: AbortSignal): Promise<Holdings> {
  const cacheEntries = await source.cache.list();
  const base = source.addressDir ?? hostLocalDirectory;
  const places = new Map<string, { dataDir: string; networkName: string }>();
  const add = (dataDir: string, networkName: string): void => {
    places.set(join(dataDir, networkName), { dataDir, networkName });
  };
  for (const networkName of await directoriesIn(base)) add(base, networkName);
  for (const list of [...source.networks, ...cacheEntries.flatMap(listOf)]) {
    for (const dataDir of addressDirsOf(list, base)) add(dataDir, list.name);
  }
  const addresses: ReservedAddress[] = [];
  for (const { dataDir, networkName } of places.values()) {
    addresses.push(...(await reservedAddresses(dataDir, networkName)));
  }
  const natTables = [];
  for (const table of await source.natTables(signal)) {
    for (const family of addressFamilies) natTables.push({ family, save: await table.save(family, signal) });
  }
  return { cacheEntries, addresses, natTables };
}

function addressDirsOf(list: NetworkList, base: string): readonly string[] {
  return list.plugins.flatMap(({ configuration: { ipam } }) => {
    if (!isObject(ipam) || ipam["type"] !== "host-local") return [];
    const dataDir = stringAt(ipam, "dataDir") ?? "";
    return [dataDir === "" ? base : dataDir];
  });
}

/** Addresses that the host-local plugin has reserved in a network. Throws as `fileError` describes. */
export async function reservedAddresses(
  dataDir: string,
  networkName: string,
): Promise<readonly ReservedAddress[]> {
  const found: ReservedAddress[] = [];
  const directory = join(dataDir, networkName);
  for (const name of await namesIn(directory)) {
    // Others are the lock and the last address of each range.
    if (isIP(name) === 0) continue;
    const content = await readRegularFile(join(directory, name), largestAddressFileBytes);
    if (content.kind !== "read") continue;
    const [containerId = "", ifName = ""] = Buffer.from(content.bytes).toString("utf8").trim().split(/\r?\n/);
    if (containerId === "") continue;
    // Old versions of the plugin wrote the id alone.
    found.push({ address: name, networkName, dataDir, containerId, ifName: ifName === "" ? "eth0" : ifName });
  }
  return found;
}

/** Networks in which the host-local plugin has reserved an address for the container. */
export async function networksHolding(
  containerId: string,
  dataDir: string = hostLocalDirectory,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const networkName of await directoriesIn(dataDir)) {
    const addresses = await reservedAddresses(dataDir, networkName);
    if (addresses.some((address) => address.containerId === containerId)) found.push(networkName);
  }
  return found;
}

function listOf(entry: CacheEntry): readonly NetworkList[] {
  if (entry.config === undefined) return [];
  try {
    return [parseCachedList(entry.config, `cache of ${entry.networkName}`)];
  } catch {
    // Without a data directory. The tear-down of the attachment logs the error.
    return [];
  }
}

async function directoriesIn(directory: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return [];
    throw fileError("list", directory, error);
  }
}
