/** How many of the addresses of a network are reserved, as the host-local plugin counts them. IPv4 alone. */
import { isIPv4 } from "node:net";
import { isList, isObject, type JsonObject, stringAt } from "../../lib/json/exact-json.js";
import type { NetworkList } from "../../network/libcni/configuration.js";
import { hostLocalDirectory, reservedAddresses } from "../../network/orphans/held-resources.js";
import type { AddressUse } from "../facts.js";

/** Undefined where another plugin gives addresses, or the ranges come with the pod. */
export async function readAddressUse(
  network: NetworkList,
  base = hostLocalDirectory,
): Promise<AddressUse | undefined> {
  const ipam = network.plugins.map(({ configuration }) => configuration["ipam"]).find(isObject);
  if (ipam?.["type"] !== "host-local") return undefined;
  const ranges = rangesOf(ipam);
  if (ranges.length === 0) return undefined;
  const directory = stringAt(ipam, "dataDir") ?? "";
  // Other users may not see them, and the network is judged without.
  const reserved = await reservedAddresses(directory === "" ? base : directory, network.name).catch(
    () => undefined,
  );
  if (reserved === undefined) return undefined;
  return {
    ranges: ranges.map((range) => stringAt(range, "subnet") ?? ""),
    used: reserved.filter(({ address }) => isIPv4(address)).length,
    total: ranges.reduce((sum, range) => sum + sizeOf(range), 0),
  };
}

function rangesOf(ipam: JsonObject): readonly JsonObject[] {
  const sets = isList(ipam["ranges"]) ? ipam["ranges"] : [];
  const all = [ipam, ...sets.flatMap((set) => (isList(set) ? set.filter(isObject) : []))];
  return all.filter((range) => /^[\d.]+\/\d+$/.test(stringAt(range, "subnet") ?? ""));
}

/** Without the addresses of the network, of the gateway and for all. */
function sizeOf(range: JsonObject): number {
  const [first = "", bits = ""] = (stringAt(range, "subnet") ?? "").split("/");
  const start = Math.max(numberOf(first) + 2, numberOf(stringAt(range, "rangeStart") ?? ""));
  const last = numberOf(first) + 2 ** (32 - Number(bits)) - 2;
  const end = Math.min(last, numberOf(stringAt(range, "rangeEnd") ?? "") || last);
  return Math.max(0, end - start + 1);
}

function numberOf(address: string): number {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}
