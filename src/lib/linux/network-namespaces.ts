/** The network namespace of a path; one through a process may lead to another a moment later. */
import { fstatSync, readFileSync, statfsSync, statSync, type Stats } from "node:fs";
import { parseStat } from "./process-stat.js";
import { ShimError } from "../errors.js";

export interface NetworkNamespaces {
  /** What lies at the path now; undefined when that is no network namespace (any more). */
  look(path: string): NamespaceLook | undefined;
}

export interface NamespaceLook {
  /**
   * Equal texts mean the same namespace, also across restarts of this program: device and inode, which the
   * kernel gives out again; the boot; and for a path through a process the time when that one started.
   */
  readonly identity: string;
  /** It is the namespace of this program or of the node's first process, and so never a pod's. */
  readonly own: boolean;
}

const nsfsMagic = 0x6e736673;
const processPath = /^\/proc\/([1-9]\d*)\/ns\/net$/;

/** Asks the kernel. Synchronous: these files are in memory, no disk is waited for. */
export class KernelNamespaces implements NetworkNamespaces {
  look(path: string): NamespaceLook | undefined {
    const started = startTimeOf(path);
    const file = namespaceFile(path);
    // The second look proves that the process that was there before is the one whose namespace was seen.
    if (file === undefined || started === undefined || startTimeOf(path) !== started) return undefined;
    return { identity: [bootId(), file, started].join(" ").trimEnd(), own: ownNamespaces().includes(file) };
  }
}

/** Whether an open file is the namespace of an `identity` that was looked up after it was opened. */
export function isNamespace(identity: string, descriptor: number): boolean {
  return identity.split(" ").includes(nameOf(fstatSync(descriptor)));
}

let knownOwn: readonly string[] | undefined;

/** Neither this program nor the node's first process ever leaves its namespace. */
function ownNamespaces(): readonly string[] {
  if (knownOwn !== undefined) return knownOwn;
  const [own, first] = [namespaceFile("/proc/self/ns/net"), namespaceFile("/proc/1/ns/net")];
  const found = [own, first].filter((file) => file !== undefined);
  if (own !== undefined && first !== undefined) knownOwn = found;
  return found;
}

/** Device and inode. */
function namespaceFile(path: string): string | undefined {
  try {
    if (statfsSync(path).type !== nsfsMagic) return undefined;
    return nameOf(statSync(path));
  } catch {
    // Gone, or not to be looked at.
    return undefined;
  }
}

function nameOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

/** Empty for a path that leads through no process, undefined when the process is gone. */
function startTimeOf(path: string): string | undefined {
  const [, pid] = processPath.exec(path) ?? [];
  if (pid === undefined) return "";
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"))?.startTime;
  } catch {
    return undefined;
  }
}

let knownBootId: string | undefined;

/** Differs after each start of the kernel; empty where that cannot be told. */
export function bootId(): string {
  try {
    return (knownBootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim());
  } catch {
    return "";
  }
}

/** The network namespace of a pod, as plugins get it. */
export interface PodNamespace {
  /** A path; empty for a DEL when the namespace is gone. */
  readonly netns: string;
  /** `NamespaceLook.identity` of the namespace that was proven to be that of the pod. */
  readonly netnsIdentity?: string | undefined;
}

/**
 * Throws `precondition` unless the pod's namespace still lies at the path. Before each run of a plugin: the
 * number of the process may be another's by now, and the plugin would work on the node or another pod.
 */
export function requireNamespace(
  namespaces: NetworkNamespaces,
  { netns, netnsIdentity }: PodNamespace,
): void {
  if (netns === "") return;
  const found = namespaces.look(netns);
  const problem =
    found === undefined
      ? "it is gone"
      : found.own
        ? "it is the node's own"
        : found.identity !== netnsIdentity
          ? "it is not the pod's any more"
          : undefined;
  if (problem !== undefined) {
    throw new ShimError("precondition", `network namespace ${JSON.stringify(netns)}: ${problem}`, { netns });
  }
}

/** Whether the path leads through a process, whose pid may have been reused. */
export function isProcessPath(path: string): boolean {
  return path.startsWith("/proc/");
}
