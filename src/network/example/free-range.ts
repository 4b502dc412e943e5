/** Address ranges that a node uses already, and a free one for pods. */
import { readFile } from "node:fs/promises";
import { BlockList } from "node:net";
import { networkInterfaces } from "node:os";
import { ShimError } from "../../lib/errors.js";

/** A range, as `10.1.0.0/16`, and the interface that leads there. */
export interface NodeRange {
  readonly cidr: string;
  readonly interfaceName: string;
}

/** IPv4 ranges of interfaces and routes, without the default route. Throws when they cannot be read. */
export async function readNodeRanges(routeFile = "/proc/net/route"): Promise<readonly NodeRange[]> {
  const ranges = routedRanges(await readFile(routeFile, "utf8"));
  for (const [interfaceName, addresses = []] of Object.entries(networkInterfaces())) {
    for (const { family, cidr } of addresses) {
      if (family === "IPv4" && cidr !== null) ranges.push({ cidr, interfaceName });
    }
  }
  return ranges;
}

/** Of /proc/net/route: interface, destination, …, mask as eighth; bytes of numbers are reversed. */
function routedRanges(text: string): NodeRange[] {
  const ranges: NodeRange[] = [];
  for (const line of text.split("\n").slice(1)) {
    const [interfaceName, destination, , , , , , mask] = line.trim().split(/\s+/);
    if (interfaceName === undefined || destination === undefined || mask === undefined) continue;
    const prefixLength = Number.parseInt(mask, 16).toString(2).replaceAll("0", "").length;
    if (prefixLength === 0) continue;
    const bytes = destination.match(/../g)?.reverse() ?? [];
    const address = bytes.map((byte) => String(Number.parseInt(byte, 16))).join(".");
    ranges.push({ cidr: `${address}/${prefixLength}`, interfaceName });
  }
  return ranges;
}

export interface FreePlace {
  readonly bridge: string;
  readonly cidr: string;
}

/**
 * A bridge and an IPv4 range for it that overlaps with nothing else. A bridge that exists is taken when its
 * addresses are in the range of a candidate: it keeps its range. The bridge plugin refuses a bridge with
 * addresses of another range. Throws `unavailable` with the conflicting ranges.
 */
export function findFreePlace(
  bridges: readonly string[],
  candidates: readonly string[],
  taken: readonly NodeRange[],
): FreePlace {
  for (const bridge of bridges) {
    const own = taken.filter(({ interfaceName }) => interfaceName === bridge);
    const others = taken.filter(({ interfaceName }) => interfaceName !== bridge);
    const cidr = candidates.find(
      (candidate) =>
        own.every((range) => contains(candidate, range.cidr)) &&
        !others.some((range) => overlap(candidate, range.cidr)),
    );
    if (cidr !== undefined) return { bridge, cidr };
  }
  const names = taken
    .filter(
      (range) =>
        bridges.includes(range.interfaceName) || candidates.some((each) => overlap(each, range.cidr)),
    )
    .map(({ cidr, interfaceName }) => `${cidr} on ${interfaceName}`);
  throw new ShimError(
    "unavailable",
    `no address range for pods is free on this node (${names.join(", ")}): give one with --pod-cidr`,
  );
}

/** The first of the bridges that has no IPv4 address, or only such as are in the given range. */
export function findFreeBridge(
  bridges: readonly string[],
  cidr: string | undefined,
  taken: readonly NodeRange[],
): string {
  const free = bridges.find((bridge) =>
    taken.every(
      (range) => range.interfaceName !== bridge || (cidr !== undefined && contains(cidr, range.cidr)),
    ),
  );
  if (free === undefined) {
    throw new ShimError("unavailable", `the bridges ${bridges.join(" and ")} have addresses of other ranges`);
  }
  return free;
}

export function overlap(one: string, other: string): boolean {
  return contains(one, other) || contains(other, one);
}

function contains(range: string, other: string): boolean {
  const [address = "", prefixLength = ""] = range.split("/");
  const [otherAddress = "", otherLength = ""] = other.split("/");
  if (Number(prefixLength) > Number(otherLength)) return false;
  const list = new BlockList();
  list.addSubnet(address, Number(prefixLength), "ipv4");
  return list.check(otherAddress, "ipv4");
}
