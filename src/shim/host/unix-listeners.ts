/** Proof that a process listens on a unix socket that this program knows by its path. */
import { stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { readlink } from "node:fs/promises";
import type { ProcFiles } from "./proc-files.js";

/**
 * Whether the process holds a listening socket that is bound to the file at `socketPath`. A socket that systemd passed on
 * is held by both; one whose file was replaced since is not at that path any more, whatever name it has.
 */
export async function listensOn(proc: ProcFiles, pid: number, socketPath: string): Promise<boolean> {
  const sockets = parseListeningSockets((await proc.text(pid, "net/unix")) ?? "");
  if (sockets.length === 0) return false;
  const held = new Set(await proc.openFiles(pid));
  for (const { inode, path } of sockets) {
    if (!held.has(`socket:[${inode}]`) || !isAbsolute(path)) continue;
    const visible = await pathSeenBy(proc, pid, path);
    if (visible !== undefined && (await isSameFile(visible, socketPath))) return true;
  }
  return false;
}

/**
 * The path under which this program reaches what is `path` to the process: another one when that lives in another mount
 * namespace. Undefined when it cannot be reached.
 */
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

/** Lines of /proc/net/unix are `address: references protocol flags type state inode path`, numbers hexadecimal but for the inode. */
export function parseListeningSockets(text: string): readonly ListeningSocket[] {
  const line = /^[0-9a-f]+: \S+ \S+ ([0-9A-Fa-f]+) \S+ \S+ +(\d+) (.+)$/;
  return text.split("\n").flatMap((one) => {
    const [, flags = "0", inode, path] = line.exec(one) ?? [];
    if (inode === undefined || path === undefined) return [];
    return (Number.parseInt(flags, 16) & acceptsConnections) === 0 ? [] : [{ inode, path }];
  });
}

/** Symbolic links as the process follows them: absolute ones lead to its own root, which the kernel would not do here. */
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

async function isSameFile(one: string, other: string): Promise<boolean> {
  const [first, second] = await Promise.all(
    [one, other].map((path) => stat(path, { bigint: true }).catch(() => undefined)),
  );
  return first !== undefined && first.ino === second?.ino && first.dev === second.dev;
}
