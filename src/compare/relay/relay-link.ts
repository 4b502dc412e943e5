/** The path that clients dial: a link to the relay's socket or to the server's. It changes by rename. */
import { randomBytes } from "node:crypto";
import { lstat, mkdir, readlink, realpath, rename, symlink, unlink } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";

export interface RelayPaths {
  /** The symbolic link. */
  readonly listen: string;
  /** The relay's socket, beside the link: a second relay for the same link finds it taken. */
  readonly relay: string;
  readonly primary: string;
}

export function relayPaths(listen: string, primary: string): RelayPaths {
  return { listen, primary, relay: join(dirname(listen), `.${basename(listen)}.relay`) };
}

/** Throws `invalid` when a socket that is dialled here leads back to the relay, by whatever name. */
export async function refuseLoop(flag: string, socket: string, { listen, relay }: RelayPaths): Promise<void> {
  const ours = await Promise.all([listen, relay].map(inRealDirectory));
  for await (const path of linksFrom(socket)) {
    if (!ours.includes(path)) continue;
    throw new ShimError(
      "invalid",
      `flag "${flag}": ${JSON.stringify(socket)} leads to ${JSON.stringify(listen)}, where this relay ` +
        "listens; name the server's own socket",
    );
  }
}

/** As many as the kernel follows. */
const longestChain = 40;

/** The path and what it leads to, link by link, each in a directory without links. */
async function* linksFrom(path: string): AsyncGenerator<string> {
  let at = path;
  for (let link = 0; link <= longestChain; link += 1) {
    at = await inRealDirectory(at);
    yield at;
    const target = await readlink(at).catch(() => undefined);
    if (target === undefined) return;
    at = resolve(dirname(at), target);
  }
}

/** Where there is no such directory, nothing leads to it. */
async function inRealDirectory(path: string): Promise<string> {
  return join(await realpath(dirname(path)).catch(() => dirname(path)), basename(path));
}

/** Throws `conflict` when something lies at `listen` that no relay of this server has made. */
export async function checkLink({ listen, relay, primary }: RelayPaths): Promise<"absent" | "ours"> {
  const found = await lstat(listen).catch((error: unknown) => {
    if (hasCode(error, "ENOENT")) return undefined;
    throw new ShimError("precondition", `look at ${JSON.stringify(listen)}: ${messageOf(error)}`);
  });
  if (found === undefined) return "absent";
  const target = found.isSymbolicLink() ? await readlink(listen) : undefined;
  if (target === relay || target === primary) return "ours";
  const what =
    target === undefined
      ? found.isSocket()
        ? "a socket of another program is there"
        : "a file of another program is there"
      : `it is a link to ${JSON.stringify(target)}`;
  throw new ShimError(
    "conflict",
    `listen on ${JSON.stringify(listen)}: ${what}; choose another path for --listen, or remove it yourself`,
  );
}

/** The relay's socket must be bound. */
export async function pointAtRelay(paths: RelayPaths): Promise<void> {
  const { listen, relay } = paths;
  await mkdir(dirname(listen), { recursive: true, mode: 0o750 });
  if ((await checkLink(paths)) === "ours") {
    await replaceLink(listen, relay);
    return;
  }
  // Fails where another program was faster.
  await symlink(relay, listen).catch((error: unknown) => {
    throw new ShimError("conflict", `listen on ${JSON.stringify(listen)}: ${messageOf(error)}`);
  });
}

/** Whether the link pointed at the relay, and points at the server now. */
export async function pointAtPrimary({ listen, relay, primary }: RelayPaths): Promise<boolean> {
  const target = await readlink(listen).catch(() => undefined);
  if (target !== relay) return false;
  await replaceLink(listen, primary);
  return true;
}

async function replaceLink(path: string, target: string): Promise<void> {
  const temporary = join(dirname(path), `.${randomBytes(6).toString("hex")}`);
  await symlink(target, temporary);
  try {
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined); // The first error is the one to report.
    throw new ShimError("precondition", `set the link ${JSON.stringify(path)}: ${messageOf(error)}`);
  }
}
