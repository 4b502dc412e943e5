/** Proof that a process listens on a unix socket that this program knows by its path. */
import { lstat, readlink, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";
import type { ProcFiles } from "./processes/proc-files.js";

/** A service opens its listening sockets first, and they get the lowest numbers. */
const mostOpenFiles = 4_096;
/** Limit of the list of all sockets of a network namespace. Pods in the host's network have theirs in it, too. */
const socketsLimitBytes = 64 * 1024 * 1024;

/**
 * Whether the process, one of the node's own services, holds a listening socket that is bound to the file at
 * `socketPath`. A socket that systemd passed on is held by both; one whose file was replaced since, also by a
 * link that leads to the wanted file, is not at that path any more, whatever name it has. `exhausted` where
 * there are too many sockets to tell.
 */
export async function listensOn(proc: ProcFiles, pid: number, socketPath: string): Promise<boolean> {
  const wanted = await stat(socketPath, { bigint: true }).catch(() => undefined);
  if (wanted === undefined) return false;
  const names = await proc.openFiles(pid, mostOpenFiles);
  const held = new Set(names.filter((name) => name.startsWith("socket:")));
  if (held.size === 0) return false;
  for await (const lines of proc.lines(pid, "net/unix", socketsLimitBytes)) {
    for (const { inode, path } of parseListeningSockets(lines)) {
      if (!held.has(`socket:[${inode}]`) || !isAbsolute(path)) continue;
      // The last part was a socket when it was bound, and never a link.
      const directory = await pathSeenBy(proc, pid, dirname(path));
      if (directory === undefined) continue;
      const found = await lstat(join(directory, basename(path)), { bigint: true }).catch(() => undefined);
      if (found !== undefined && found.ino === wanted.ino && found.dev === wanted.dev) return true;
    }
  }
  return false;
}

/** As `containerd, process 12`, for messages; undefined where it is not visible. */
export async function listenerOf(proc: ProcFiles, socketPath: string): Promise<string | undefined> {
  const sockets = await socketsAt(proc, socketPath);
  const holders = await proc.mapDefined(sockets.size === 0 ? [] : await proc.pids(), async (pid) => {
    const files = await proc.openFiles(pid, mostOpenFiles);
    return files.some((name) => sockets.has(name)) ? `${await proc.command(pid)}, process ${pid}` : undefined;
  });
  return holders.findLast((holder) => !holder.startsWith("systemd,")) ?? holders[0];
}

/** Whether systemd alone listens at `socketPath`, for a service that does not run. A connection would start that one. */
export async function awaitsService(proc: ProcFiles, socketPath: string): Promise<boolean> {
  return (await listenerOf(proc, socketPath)) === "systemd, process 1";
}

/** Which of the descriptors of this process, if any, is a socket that listens at `socketPath`. */
export async function descriptorAt(
  proc: ProcFiles,
  socketPath: string,
  descriptors: readonly number[],
): Promise<number | undefined> {
  const sockets = descriptors.length === 0 ? new Set<string>() : await socketsAt(proc, socketPath);
  for (const descriptor of descriptors)
    if (sockets.has((await proc.link("self", `fd/${descriptor}`)) ?? "")) return descriptor;
  return undefined;
}

/** The sockets that listen at `socketPath`, whatever links lead there, as names of open files: `socket:[123]`. */
async function socketsAt(proc: ProcFiles, socketPath: string): Promise<ReadonlySet<string>> {
  const wanted = await realpath(socketPath).catch(() => socketPath);
  const names = new Set<string>();
  for await (const lines of proc.lines("self", "net/unix", socketsLimitBytes)) {
    for (const { inode, path } of parseListeningSockets(lines)) {
      // The last part was a socket when it was bound, and never a link.
      if (basename(path) !== basename(wanted)) continue;
      if (path === wanted || (await realpath(path).catch(() => path)) === wanted)
        names.add(`socket:[${inode}]`);
    }
  }
  return names;
}

/** Where this program reaches what is `path` to the process, in another mount namespace; if it can. */
export async function pathSeenBy(proc: ProcFiles, pid: number, path: string): Promise<string | undefined> {
  const [own, other, root] = await Promise.all([
    proc.link("self", "ns/mnt"),
    proc.link(pid, "ns/mnt"),
    proc.link(pid, "root"),
  ]);
  if (own === undefined || other === undefined) return undefined;
  return own === other && root === "/" ? path : resolveBelow(proc.path(pid, "root"), path);
}

export interface ListeningSocket {
  readonly inode: string;
  /** As given to bind: may be relative, and begins with `@` when it is no file. */
  readonly path: string;
}

const acceptsConnections = 0x10000;

/** `address: references protocol flags type state inode path`, hexadecimal but for the inode. */
export function parseListeningSockets(lines: readonly string[]): readonly ListeningSocket[] {
  const form = /^[0-9a-f]+: \S+ \S+ ([0-9A-Fa-f]+) \S+ \S+ +(\d+) (.+)$/;
  return lines.flatMap((line) => {
    const [, flags = "0", inode, path] = form.exec(line) ?? [];
    if (inode === undefined || path === undefined) return [];
    return (Number.parseInt(flags, 16) & acceptsConnections) === 0 ? [] : [{ inode, path }];
  });
}

/** Follows links as the process does: absolute ones lead to the process's own root. */
async function resolveBelow(root: string, path: string): Promise<string | undefined> {
  const rest = path.split("/");
  let resolved = "/";
  for (let steps = 0; steps < 255; steps++) {
    const part = rest.shift();
    if (part === undefined) return root + resolved;
    if (part === "" || part === ".") continue;
    if (part === "..") {
      resolved = dirname(resolved);
      continue;
    }
    const next = join(resolved, part);
    const target = await readlink(root + next).catch(() => undefined);
    if (target === undefined) {
      resolved = next;
    } else {
      rest.unshift(...target.split("/"));
      if (isAbsolute(target)) resolved = "/";
    }
  }
  return undefined;
}
