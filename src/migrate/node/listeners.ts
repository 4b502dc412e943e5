/** Which program listens on a unix socket, from /proc alone: a connection could start a service. */
import { dirname } from "node:path/posix";
import type { NodeFiles } from "../files/node-files.js";
import { flagsOf, lastFlag } from "../kubelet/flags.js";
import { defaultSockets, socketPath } from "../kubelet/target.js";

/** `systemd`: it alone holds the socket, and would start a service. `unknown`: /proc does not tell. */
export type Listener = "none" | "systemd" | "program" | "unknown";

const socketsPath = "/proc/net/unix";
/** A busy node has some ten thousand sockets, with some hundred bytes each. */
const largestSocketsBytes = 64 * 1024 * 1024;
/** The flag in it of a socket that listens. */
const acceptsFlag = 0x10000;

export async function listenerOf(files: NodeFiles, path: string): Promise<Listener> {
  const sockets = await listeningSockets(files, path);
  if (sockets.size === 0) return (await seesHostSockets(files)) ? "none" : "unknown";
  const holders = await holdersOf(files, path, sockets);
  if (holders.some(({ isSystemd }) => !isSystemd)) return "program";
  return holders.length > 0 ? "systemd" : "unknown";
}

/** The service of the process; empty: none, or several. Undefined where /proc does not tell. */
export async function listeningUnit(files: NodeFiles, path: string): Promise<string | undefined> {
  const units = new Set<string>();
  for (const { process, isSystemd } of await holdersOf(files, path, await listeningSockets(files, path)))
    if (!isSystemd) units.add((await unitOfProcess(files, process)) ?? "");
  return units.size > 1 ? "" : [...units][0];
}

/** The innermost service of a process, by its cgroup; empty: it is in none. Undefined where /proc does not tell. */
export async function unitOfProcess(files: NodeFiles, process: string): Promise<string | undefined> {
  const reading = await files.read(`/proc/${process}/cgroup`);
  if (reading.kind !== "read") return undefined;
  const lines = reading.text.split("\n");
  // Beside cgroup version 1, engines leave their containers where they are themselves in the other hierarchy.
  const line =
    lines.find((one) => one.includes(":name=systemd:")) ?? lines.find((one) => one.startsWith("0::"));
  return line?.split("/").findLast((part) => part.endsWith(".service")) ?? "";
}

/** The sockets that may be the one at `path`, by inode, and whether they were bound to that name. */
async function listeningSockets(files: NodeFiles, path: string): Promise<ReadonlyMap<string, boolean>> {
  const wanted = await resolved(files, path);
  const isThere = (await files.kindOf(wanted)) !== "absent";
  const sockets = new Map<string, boolean>();
  const reading = await files.read(socketsPath, largestSocketsBytes);
  for (const line of reading.kind === "read" ? reading.text.split("\n") : []) {
    const [, flags = "0", inode = "", bound] =
      /^\S+ \S+ \S+ ([0-9A-F]+) \S+ \S+ +(\d+) (\/.*)$/.exec(line) ?? [];
    if (bound === undefined || (Number.parseInt(flags, 16) & acceptsFlag) === 0) continue;
    const target = await resolved(files, bound);
    if (bound === path || target === wanted) sockets.set(inode, true);
    else if (isThere && dirname(target) === dirname(wanted) && (await files.kindOf(target)) === "absent")
      sockets.set(inode, false);
  }
  return sockets;
}

interface Holder {
  readonly process: string;
  readonly isSystemd: boolean;
}

/** The processes that have one of the sockets. */
async function holdersOf(
  files: NodeFiles,
  path: string,
  sockets: ReadonlyMap<string, boolean>,
): Promise<readonly Holder[]> {
  const holders: (Holder & { readonly isCertain: boolean })[] = [];
  for (const process of sockets.size === 0 ? [] : await files.names("/proc")) {
    if (!/^\d+$/.test(process)) continue;
    const held = await heldOf(files, process, sockets);
    if (held.length === 0) continue;
    const name = await files.read(`/proc/${process}/comm`);
    const isSystemd = name.kind === "read" && name.text.trim() === "systemd";
    const isCertain = held.includes(true) || (await namesSocket(files, process, path));
    holders.push({ process, isSystemd, isCertain });
  }
  const certain = holders.filter((holder) => holder.isCertain);
  return certain.length > 0 ? certain : holders;
}

/** The processes that hold one of the sockets, as messages name them. */
export async function holdersOfSockets(
  files: NodeFiles,
  inodes: ReadonlySet<string>,
): Promise<readonly string[]> {
  const sockets = new Map([...inodes].map((inode) => [inode, true] as const));
  const holders: string[] = [];
  for (const process of await files.names("/proc")) {
    if (!/^\d+$/.test(process) || (await heldOf(files, process, sockets)).length === 0) continue;
    const name = await files.read(`/proc/${process}/comm`);
    holders.push(`process ${process}${name.kind === "read" ? ` (${name.text.trim()})` : ""}`);
  }
  return holders;
}

/** Whether the command line of the process has the socket, or its program has it as its default. */
async function namesSocket(files: NodeFiles, process: string, path: string): Promise<boolean> {
  const reading = await files.read(`/proc/${process}/cmdline`);
  const words = reading.kind === "read" ? reading.text.split("\0") : [];
  const placed = words.map((text) => ({ text, raw: text, file: "", line: 1 }));
  const flag = lastFlag(flagsOf(placed), "container-runtime-endpoint")?.value;
  const isTheirs = words[0]?.endsWith("cri-dockerd") === true;
  return socketPath(flag ?? (isTheirs ? defaultSockets["cri-dockerd"] : "")) === socketPath(path);
}

async function resolved(files: NodeFiles, path: string): Promise<string> {
  return files.resolve(path).catch(() => path);
}

async function heldOf(
  files: NodeFiles,
  process: string,
  sockets: ReadonlyMap<string, boolean>,
): Promise<readonly boolean[]> {
  const held = [];
  for (const descriptor of await files.names(`/proc/${process}/fd`)) {
    const target = await files.linkTarget(`/proc/${process}/fd/${descriptor}`);
    held.push(sockets.get(/^socket:\[(\d+)\]$/.exec(target ?? "")?.[1] ?? ""));
  }
  return held.filter((isBound) => isBound !== undefined);
}

/** /proc/net is that of the network namespace; without a namespace of its own it is the one of process 1. */
async function seesHostSockets(files: NodeFiles): Promise<boolean> {
  if ((await files.read(socketsPath, largestSocketsBytes)).kind !== "read") return false;
  const [own, first] = await Promise.all(
    ["self", "1"].map((process) => files.linkTarget(`/proc/${process}/ns/net`)),
  );
  return own !== undefined && own === first;
}
