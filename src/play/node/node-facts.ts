/** Reads the facts about the node that pods need. */
import { constants } from "node:fs";
import { access, readFile, readdir, statfs } from "node:fs/promises";
import { isIP } from "node:net";
import { cpus, hostname, networkInterfaces, totalmem } from "node:os";
import type { NodeFacts as EngineFacts } from "../../domain/node-facts.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { NodeFacts } from "../pod-config/cri-config.js";
import type { DnsConfig } from "../pod-config/dns.js";
import { isLoopbackOnly, parseResolvConf } from "../pod-config/dns.js";
import type { PodCgroups } from "../pod-config/pod-cgroup.js";

/** The kubelet keeps so much memory free by evicting pods; the rest is what pods can have. */
const evictionBytes = 100n * 1024n ** 2n;

/** `stateDirectory`: where volumes are, on whose file system pods take space. */
export async function readNodeFacts(
  stateDirectory: string,
  asked: PodCgroups | Promise<PodCgroups>,
): Promise<NodeFacts> {
  const memoryBytes = BigInt(totalmem());
  const [dns, hostsFile, seLinux, isCgroup2, hasHugePageLimits, hugePageSizes, storageBytes, podCgroups] =
    await Promise.all([
      readDns(),
      readOrEmpty("/etc/hosts"),
      isThere("/sys/fs/selinux/enforce"), // Missing when the kernel has none, or it is switched off.
      isThere("/sys/fs/cgroup/cgroup.controllers"),
      hasHugePageCgroups(),
      readHugePageSizes(),
      readStorage(stateDirectory),
      asked,
    ]);
  const allocatable = allocatableOf(cpus().length, memoryBytes, storageBytes);
  return {
    memoryBytes,
    hugePageSizes,
    hasHugePageLimits,
    cgroupVersion: isCgroup2 ? 2 : 1,
    allocatable,
    name: hostname().toLowerCase(),
    addresses: nodeAddresses(),
    dns,
    hostsFile,
    seLinux,
    podCgroups,
  };
}

/** Brings the facts up to date in place, for all who have them: addresses and DNS of a node change. */
export async function renewNodeFacts(facts: NodeFacts, stateDirectory: string): Promise<void> {
  Object.assign(facts, await readNodeFacts(stateDirectory, facts.podCgroups));
}

/** The facts of a remote engine, as far as it reports them. Pods get its own DNS settings. */
export function engineNodeFacts(
  { cpus: cpuCount, totalMemory, cgroupVersion, hostName, security }: EngineFacts,
  { storageBytes, host }: { readonly storageBytes: bigint; readonly host: string },
): NodeFacts {
  const memoryBytes = BigInt(totalMemory);
  return {
    memoryBytes,
    cgroupVersion,
    hugePageSizes: [],
    hasHugePageLimits: false,
    allocatable: allocatableOf(cpuCount, memoryBytes, storageBytes),
    name: hostName.toLowerCase(),
    addresses: isIP(host) === 0 ? [] : [host],
    dns: undefined,
    hostsFile: "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    seLinux: security.selinux,
    podCgroups: { reason: "the engine is elsewhere, and play reaches no cgroups there" },
  };
}

function allocatableOf(
  cpuCount: number,
  memoryBytes: bigint,
  storageBytes: bigint,
): NodeFacts["allocatable"] {
  return {
    cpu: String(cpuCount),
    memory: String(memoryBytes > evictionBytes ? memoryBytes - evictionBytes : memoryBytes),
    "ephemeral-storage": String(storageBytes),
  };
}

/** The first address of each family that other machines can reach. */
function nodeAddresses(): readonly string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const usable = all.filter(({ internal, scopeid = 0 }) => !internal && scopeid === 0);
  return (["IPv4", "IPv6"] as const).flatMap((family) =>
    usable
      .filter((one) => one.family === family)
      .slice(0, 1)
      .map(({ address }) => address),
  );
}

/** In cgroup v1 the controller has a hierarchy of its own. */
async function hasHugePageCgroups(): Promise<boolean> {
  const controllers = await readOrEmpty("/sys/fs/cgroup/cgroup.controllers");
  return controllers.split(/\s/).includes("hugetlb") || isThere("/sys/fs/cgroup/hugetlb");
}

/** In the form of the CRI: `2MB`, `1GB`. */
async function readHugePageSizes(): Promise<readonly string[]> {
  let names: readonly string[];
  try {
    names = await readdir("/sys/kernel/mm/hugepages");
  } catch (error) {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  }
  return names.flatMap((name) => {
    const [, kilobytes = ""] = /^hugepages-(\d+)kB$/.exec(name) ?? [];
    if (kilobytes === "") return [];
    const size = Number(kilobytes);
    if (size % 1024 ** 2 === 0) return [`${size / 1024 ** 2}GB`];
    return [size % 1024 === 0 ? `${size / 1024}MB` : `${size}KB`];
  });
}

/** Bytes of the file system of the nearest directory that exists. */
async function readStorage(directory: string): Promise<bigint> {
  for (let path = directory; ; path = path.slice(0, path.lastIndexOf("/"))) {
    try {
      const { blocks, bsize } = await statfs(path === "" ? "/" : path, { bigint: true });
      return blocks * bsize;
    } catch (error) {
      if (path === "" || !hasCode(error, "ENOENT")) throw error;
    }
  }
}

/** The node's resolv.conf. If that only has the stub of systemd-resolved, the file with its upstream servers. */
async function readDns(): Promise<DnsConfig> {
  const own = parseResolvConf(await readOrEmpty("/etc/resolv.conf"));
  if (!isLoopbackOnly(own)) return own;
  const behind = parseResolvConf(await readOrEmpty("/run/systemd/resolve/resolv.conf"));
  return behind.servers.length === 0 ? own : behind;
}

/** Empty for a file that is missing, as one of a cgroup that has just ended. */
export async function readOrEmpty(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENODEV")) return "";
    throw error;
  }
}

export async function isThere(path: string): Promise<boolean> {
  try {
    await access(path, constants.F_OK);
    return true;
  } catch {
    return false;
  }
}
