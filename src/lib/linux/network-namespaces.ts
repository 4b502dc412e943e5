/** The network namespace of a path; one through a process may lead to another a moment later. */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  statfsSync,
  statSync,
  type Stats,
} from "node:fs";
import { parseStat } from "./process-stat.js";
import { ShimError } from "../errors.js";

export interface NetworkNamespaces {
  /** What lies at the path now; undefined when that is no network namespace (any more). */
  look(path: string): NamespaceLook | undefined;
  /** The same, to be looked at again: the caller's to dispose. */
  prove(path: string): NamespaceProof | undefined;
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

export interface NamespaceProof extends NamespaceLook, Disposable {
  /** Whether the path still leads to it. */
  holds(): boolean;
  /** Files of the process that the path leads through, and of no other one; undefined for other paths. */
  readonly directory: string | undefined;
}

const nsfsMagic = 0x6e736673;
const processPath = /^(\/proc\/[1-9]\d*)(\/ns\/net)$/;

/** Asks the kernel. Synchronous: these files are in memory, no disk is waited for. */
export class KernelNamespaces implements NetworkNamespaces {
  look(path: string): NamespaceLook | undefined {
    using proof = this.prove(path);
    return proof === undefined ? undefined : { identity: proof.identity, own: proof.own };
  }

  prove(path: string): NamespaceProof | undefined {
    const [, directory, rest = ""] = processPath.exec(path) ?? [];
    return directory === undefined ? proveFile(path) : proveOfProcess(directory, rest);
  }
}

/** By a path that leads through no process. */
function proveFile(path: string): NamespaceProof | undefined {
  const file = namespaceFile(path);
  if (file === undefined) return undefined;
  return {
    ...lookOf(file, ""),
    directory: undefined,
    holds: () => namespaceFile(path) === file,
    [Symbol.dispose]: () => undefined,
  };
}

/**
 * By an open directory of /proc, which is that of one process for ever: nothing is found in it once the process
 * has ended, and until then no other process has its number.
 */
function proveOfProcess(directory: string, rest: string): NamespaceProof | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  } catch {
    return undefined;
  }
  const held = `/proc/self/fd/${descriptor}`;
  const file = namespaceFile(held + rest);
  const started = file === undefined ? undefined : startTimeIn(held);
  if (file === undefined || started === undefined) {
    closeSync(descriptor);
    return undefined;
  }
  return {
    ...lookOf(file, started),
    directory: held,
    holds: () => namespaceFile(held + rest) === file,
    [Symbol.dispose]: () => {
      closeSync(descriptor);
    },
  };
}

function lookOf(file: string, started: string): NamespaceLook {
  return { identity: [bootId(), file, started].join(" ").trimEnd(), own: ownNamespaces().includes(file) };
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
  if (own !== undefined) knownOwn = found;
  return found;
}

/** Device and inode; undefined for what is no namespace, or gone, or not to be looked at. */
function namespaceFile(path: string): string | undefined {
  try {
    const status = statSync(path);
    return status.dev === (knownDevice ??= namespaceDevice()) ? nameOf(status) : undefined;
  } catch {
    return undefined;
  }
}

let knownDevice: number | undefined;

/** The number of the file system that all namespaces are files of. */
function namespaceDevice(): number | undefined {
  const path = "/proc/self/ns/net";
  return statfsSync(path).type === nsfsMagic ? statSync(path).dev : undefined;
}

function nameOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

/** Undefined when the process is gone. */
function startTimeIn(directory: string): string | undefined {
  try {
    return parseStat(readFileSync(`${directory}/stat`, "utf8"))?.startTime;
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
  /** That namespace, while it is held: the proof lasts as long as it is there. */
  readonly proof?: NamespaceProof | undefined;
}

/**
 * Throws `precondition` unless the pod's namespace still lies at the path. Before each run of a plugin: the
 * number of the process may be another's by now, and the plugin would work on the node or another pod.
 */
export function requireNamespace(
  namespaces: NetworkNamespaces,
  { netns, netnsIdentity, proof }: PodNamespace,
): void {
  if (netns === "") return;
  const problem =
    proof === undefined
      ? problemOf(namespaces.look(netns), netnsIdentity)
      : proof.holds()
        ? undefined
        : "it is gone";
  if (problem !== undefined) throw misfit(netns, problem);
}

/** The namespace, held and proven; undefined for an empty path. Throws as `requireNamespace` does. */
export function proveNamespace(
  namespaces: NetworkNamespaces,
  { netns, netnsIdentity }: PodNamespace,
): NamespaceProof | undefined {
  if (netns === "") return undefined;
  const proof = namespaces.prove(netns);
  const problem = problemOf(proof, netnsIdentity);
  if (problem === undefined) return proof;
  proof?.[Symbol.dispose]();
  throw misfit(netns, problem);
}

function problemOf(found: NamespaceLook | undefined, identity: string | undefined): string | undefined {
  if (found === undefined) return "it is gone";
  if (found.own) return "it is the node's own";
  return found.identity === identity ? undefined : "it is not the pod's any more";
}

function misfit(netns: string, problem: string): ShimError {
  return new ShimError("precondition", `network namespace ${JSON.stringify(netns)}: ${problem}`, { netns });
}

/** Whether the path leads through a process, whose pid may have been reused. */
export function isProcessPath(path: string): boolean {
  return path.startsWith("/proc/");
}
