/**
 * Which program listens on a unix socket, from /proc alone. A connection would answer it, too, but systemd starts the
 * service of a socket that it holds for the first client.
 */
import type { NodeFiles } from "../files/node-files.js";

/**
 * `none`: no process listens. `systemd`: systemd alone holds it, and would start a service. `unknown`: /proc does
 * not tell, as below another root directory, or in a network namespace of its own.
 */
export type Listener = "none" | "systemd" | "program" | "unknown";

/** The flag in /proc/net/unix of a socket that listens. */
const acceptsFlag = 0x10000;

export async function listenerOf(files: NodeFiles, path: string): Promise<Listener> {
  const inode = await listeningInode(files, path);
  if (inode === undefined) return (await seesHostSockets(files)) ? "none" : "unknown";
  let listener: Listener = "unknown";
  for (const process of await files.names("/proc")) {
    if (!/^\d+$/.test(process) || !(await holds(files, process, inode))) continue;
    const reading = await files.read(`/proc/${process}/comm`);
    if (reading.kind !== "read" || reading.text.trim() !== "systemd") return "program";
    listener = "systemd";
  }
  return listener;
}

/** The service whose process listens there; empty: a process in no service. Undefined where /proc does not tell, or systemd alone holds the socket. */
export async function listeningUnit(files: NodeFiles, path: string): Promise<string | undefined> {
  const inode = await listeningInode(files, path);
  if (inode === undefined) return undefined;
  let found: "" | undefined;
  for (const process of await files.names("/proc")) {
    if (!/^\d+$/.test(process) || !(await holds(files, process, inode))) continue;
    const unit = await unitOfProcess(files, process);
    if (unit !== undefined && unit !== "") return unit;
    const name = await files.read(`/proc/${process}/comm`);
    if (name.kind === "read" && name.text.trim() !== "systemd") found = "";
  }
  return found;
}

/** The innermost service of a process, by its cgroup; empty: it is in none. Undefined where /proc does not tell. */
export async function unitOfProcess(files: NodeFiles, process: string): Promise<string | undefined> {
  const reading = await files.read(`/proc/${process}/cgroup`);
  if (reading.kind !== "read") return undefined;
  const paths = reading.text.split("\n");
  const names = paths.flatMap((line) => line.split("/").filter((part) => part.endsWith(".service")));
  return names.at(-1) ?? "";
}

/** Undefined also where the list cannot be read. */
async function listeningInode(files: NodeFiles, path: string): Promise<string | undefined> {
  const wanted = await resolved(files, path);
  const reading = await files.read("/proc/net/unix");
  for (const line of reading.kind === "read" ? reading.text.split("\n") : []) {
    const [, flags = "0", inode, bound] = /^\S+ \S+ \S+ ([0-9A-F]+) \S+ \S+ +(\d+) (\/.*)$/.exec(line) ?? [];
    if (bound === undefined || (Number.parseInt(flags, 16) & acceptsFlag) === 0) continue;
    if (bound === path || bound === wanted || (await resolved(files, bound)) === wanted) return inode;
  }
  return undefined;
}

async function resolved(files: NodeFiles, path: string): Promise<string> {
  return files.resolve(path).catch(() => path);
}

async function holds(files: NodeFiles, process: string, inode: string): Promise<boolean> {
  for (const descriptor of await files.names(`/proc/${process}/fd`))
    if ((await files.linkTarget(`/proc/${process}/fd/${descriptor}`)) === `socket:[${inode}]`) return true;
  return false;
}

/** /proc/net is that of the network namespace; without a namespace of its own it is the one of process 1. */
async function seesHostSockets(files: NodeFiles): Promise<boolean> {
  if ((await files.read("/proc/net/unix")).kind !== "read") return false;
  const [own, first] = await Promise.all(
    ["self", "1"].map((process) => files.linkTarget(`/proc/${process}/ns/net`)),
  );
  return own !== undefined && own === first;
}
