/** Addresses of a pod by its network namespace, for pods without a cached result. Runs no program. */
import { closeSync, openSync, readSync } from "node:fs";
import { isIP } from "node:net";
import {
  requireNamespace,
  type PodNamespace,
  type NetworkNamespaces,
} from "../../lib/linux/network-namespaces.js";
import { isKind } from "../../lib/errors.js";
import { readKernelFile } from "../../lib/linux/kernel-file.js";

const processPath = /^(\/proc\/[1-9]\d*)\/ns\/net$/;
/** Limit of each file. A pod that may change its network decides how long they are. */
const fileLimitBytes = 256 * 1024;
/** What one read of a file of the kernel gives at most. */
const beginBytes = 4096;

/**
 * Global addresses of the interface, IPv4 first; undefined when there is none, or the path leads through no
 * process. That a pod has addresses does not prove that its set-up ever ended. Throws `precondition` when the
 * namespace is not the pod's, `exhausted` when it has more addresses or routes than any pod of a plugin.
 */
export async function namespaceAddresses(
  namespaces: NetworkNamespaces,
  namespace: PodNamespace,
  ifName: string,
): Promise<readonly string[] | undefined> {
  const [, directory] = processPath.exec(namespace.netns) ?? [];
  if (directory === undefined) return undefined;
  // These show the namespace of that process. A kernel without one of the families has no such file.
  const read = (name: string): Promise<string> =>
    readKernelFile(`${directory}/net/${name}`, fileLimitBytes).catch((error: unknown) => {
      if (isKind(error, "exhausted")) throw error;
      return "";
    });
  const [tries, routes, ipv6] = await Promise.all(["fib_trie", "route", "if_inet6"].map(read));
  // Proves that the files were those of the pod.
  requireNamespace(namespaces, namespace);
  const found = [...ipv4Addresses(tries ?? "", routes ?? "", ifName), ...ipv6Addresses(ipv6 ?? "", ifName)];
  return found.length === 0 ? undefined : found;
}

/**
 * Whether `lo` is up, as Docker brings it up in each container. False when the path leads through no process.
 * Throws `precondition` when the namespace is not the pod's.
 */
export function isLoopbackUp(namespaces: NetworkNamespaces, namespace: PodNamespace): boolean {
  const [, directory] = processPath.exec(namespace.netns) ?? [];
  if (directory === undefined) return false;
  const proven = namespace.proof?.directory;
  const tries = beginOf(`${proven ?? directory}/net/fib_trie`);
  if (proven === undefined) requireNamespace(namespaces, namespace);
  return hasLoopbackAddress(tries);
}

/**
 * Empty when it cannot be read. Synchronous: the kernel has it in memory, and the thread pool takes ten times the CPU. A
 * namespace that is being set up has few addresses.
 */
function beginOf(path: string): string {
  try {
    const file = openSync(path, "r");
    try {
      const buffer = Buffer.allocUnsafe(beginBytes);
      return buffer.toString("latin1", 0, readSync(file, buffer));
    } finally {
      closeSync(file);
    }
  } catch {
    return "";
  }
}

export function hasLoopbackAddress(fibTrie: string): boolean {
  return /\|-- 127\.0\.0\.1\n\s+\/32 host LOCAL/.test(fibTrie);
}

/**
 * fib_trie has all local addresses, but not of which interface. Those inside a range that is routed to this
 * interface are its own; without one (addresses that are routed one by one) a single address must be.
 */
export function ipv4Addresses(fibTrie: string, routes: string, ifName: string): readonly string[] {
  const local = new Set<string>();
  let address = "";
  for (const line of fibTrie.split("\n")) {
    address = /\|-- (\S+)/.exec(line)?.[1] ?? address;
    if (/^\s*\/32 host LOCAL/.test(line) && isIP(address) === 4 && !address.startsWith("127.")) {
      local.add(address);
    }
  }
  const ranges = routes
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([name, , , , , , , mask]) => name === ifName && mask !== undefined && mask !== "00000000")
    .map(([, destination = "", , , , , , mask = ""]) => ({
      destination: Number.parseInt(destination, 16),
      mask: Number.parseInt(mask, 16),
    }));
  // There are 33 masks at most, however many routes.
  const destinations = new Map<number, Set<number>>();
  for (const { destination, mask } of ranges) {
    destinations.set(mask, (destinations.get(mask) ?? new Set()).add(destination));
  }
  const routed = [...local].filter((each) => {
    const number = reversedNumber(each);
    return [...destinations].some(([mask, found]) => found.has((number & mask) >>> 0));
  });
  return routed.length > 0 || local.size !== 1 ? routed : [...local];
}

/** As /proc/net/route writes it: the bytes reversed, in one number. */
function reversedNumber(address: string): number {
  return address.split(".").reduceRight((sum, part) => sum * 256 + Number(part), 0);
}

/** Lines of if_inet6: address, index, prefix length, scope, flags, interface; numbers in hexadecimal. */
export function ipv6Addresses(ifInet6: string, ifName: string): readonly string[] {
  return ifInet6.split("\n").flatMap((line) => {
    const [digits = "", , , scope, , name] = line.trim().split(/\s+/);
    if (name !== ifName || scope !== "00" || !/^[0-9a-f]{32}$/.test(digits)) return [];
    const groups = digits.match(/.{4}/g)?.join(":") ?? "";
    // The short form of RFC 5952.
    return [new URL(`http://[${groups}]`).hostname.slice(1, -1)];
  });
}
