/** A private unix socket that replaces a stale socket file, and never that of a running server. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, linkSync, lstatSync, mkdirSync, unlinkSync } from "node:fs";
import { lstat } from "node:fs/promises";
import { connect, type Server } from "node:net";
import { basename, dirname, join } from "node:path";
import { sleep } from "./abort.js";
import { messageOf, ShimError } from "./errors.js";
import { hasCode } from "./files/file-errors.js";

/** `sun_path` of Linux holds 108 bytes, the last of them zero. */
const longestPathBytes = 107;
/** A running server accepts at once; one that does not within this time hangs. */
const probeTimeoutMs = 2000;
/**
 * Nobody listens. ECONNRESET: the server has ended after the connection, and before it took it. EINVAL: the path is longer
 * than a socket's can be.
 */
const notServed = ["ECONNREFUSED", "ECONNRESET", "EINVAL", "ENOENT", "ENOTDIR"];

export interface BindOptions {
  /** Permissions of the socket file, 0600 unless given. */
  readonly mode?: number | undefined;
  /** Whether what listens at the path is no server. It is asked before anything connects. */
  readonly isFree?: ((path: string) => Promise<boolean>) | undefined;
}

const defaultMode = 0o600;

export interface BoundSocket {
  readonly path: string;
  /** Removes the socket file, unless another process has replaced it meanwhile. Never fails. */
  unlink(): Promise<void>;
}

/**
 * Makes `server` listen on `path`. The parent directory is made (0750) when it is
 * missing. The socket is bound under a temporary name and linked to its own, so that a client never finds it
 * half made, and a stale file of a killed process is replaced. Of several servers that start at once one gets
 * the name. Files are changed by synchronous calls: a start waits for nothing else. `conflict` when another server
 * answers on `path`, `precondition` when something else than a socket lies there or the system refuses, `invalid`
 * when the path is too long.
 */
export async function bindUnixSocket(
  server: Server,
  path: string,
  { mode = defaultMode, isFree }: BindOptions = {},
): Promise<BoundSocket> {
  const directory = dirname(path);
  const temporary = join(directory, temporaryName(path));
  try {
    mkdirSync(directory, { recursive: true, mode: 0o750 });
    // Before anything is made, so that the common mistake leaves no trace.
    await staleSocketAt(path, isFree);
    await listen(server, temporary, mode);
  } catch (error) {
    throw failure(path, error);
  }
  try {
    chmodSync(temporary, mode);
    const { dev, ino } = lstatSync(temporary);
    await takeName(temporary, path, isFree);
    unlinkSync(temporary);
    return {
      path,
      unlink: () => unlinkIfOurs(path, { dev, ino }),
    };
  } catch (error) {
    server.close();
    try {
      unlinkSync(temporary);
    } catch {
      // The first error is the one to report.
    }
    throw failure(path, error);
  }
}

/** A name beside `path`, as long as the limit of the kernel leaves room for, up to 13 bytes. */
function temporaryName(path: string): string {
  const bytes = Buffer.byteLength(path);
  const room = longestPathBytes - Buffer.byteLength(join(dirname(path), "x")) + 1;
  if (bytes > longestPathBytes || room < 6) {
    const limit = `the kernel takes paths of at most ${longestPathBytes} bytes`;
    throw new ShimError(
      "invalid",
      `listen on ${JSON.stringify(path)}: ${bytes} bytes are too long: ${limit}`,
    );
  }
  return `.${randomBytes(6).toString("hex")}`.slice(0, room);
}

/** Between two tries to get a name, while another server removes the stale socket that has it. */
const pauseMs = 10;
/** No server needs as long to remove a file. */
const abandonedMs = 1_000;
/** With their pauses they take longer than what a killed server has left is waited for. */
const takeAttempts = (2 * abandonedMs) / pauseMs;

/** Gives the bound socket its name: `link` fails where one is taken. A stale one is removed first. */
async function takeName(temporary: string, path: string, isFree: BindOptions["isFree"]): Promise<void> {
  for (let attempt = 0; attempt < takeAttempts; attempt++) {
    try {
      linkSync(temporary, path);
      return;
    } catch (error) {
      if (!hasCode(error, "EEXIST")) throw error;
    }
    const stale = await staleSocketAt(path, isFree);
    if (stale !== undefined && !removeExactly(path, stale)) await sleep(pauseMs);
  }
  throw new ShimError("conflict", "other servers are taking this name");
}

interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/**
 * Removes the socket at `path` if it is `file`, and never what another server has put there since. Only the process
 * that has made the second name may remove the first: until it has, `path` stays what the second name is. False
 * while another process has it.
 */
function removeExactly(path: string, file: FileIdentity): boolean {
  const second = join(dirname(path), `.${basename(path)}.stale`);
  try {
    linkSync(path, second);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return true;
    if (!hasCode(error, "EEXIST")) throw error;
    removeAbandoned(second);
    return false;
  }
  try {
    // Synchronous: while this process did other work, the second name could become abandoned, and `path` another server's.
    const found = lstatSync(second, { throwIfNoEntry: false });
    if (found?.dev === file.dev && found.ino === file.ino) unlinkSync(path);
  } finally {
    unlinkIfThere(second);
  }
  return true;
}

/**
 * The process that made the name was killed before it removed it. The link has set the time, which is one to come where
 * the clock was set back since.
 */
function removeAbandoned(second: string): void {
  const present = lstatSync(second, { throwIfNoEntry: false });
  if (present !== undefined && Math.abs(Date.now() - present.ctimeMs) > abandonedMs) unlinkIfThere(second);
}

function unlinkIfThere(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!hasCode(error, "ENOENT")) throw error;
  }
}

/** The dead socket at `path`, if any. Throws when a server answers, or it is no socket. */
async function staleSocketAt(
  path: string,
  isFree: BindOptions["isFree"] = () => Promise.resolve(false),
): Promise<FileIdentity | undefined> {
  const present = lstatSync(path, { throwIfNoEntry: false });
  if (present === undefined) return undefined;
  if (!present.isSocket()) throw new ShimError("precondition", "a file that is not a socket is in the way");
  if (!(await isFree(path)) && (await isServed(path)))
    throw new ShimError("conflict", "another server answers there");
  return present;
}

/**
 * Whether a server listens at `path`: false when nothing, or a stale socket, is there. Connects and hangs up,
 * so it is for sockets of this program alone. Throws raw system errors.
 */
export function isServed(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const probe = connect(path);
    const timer = setTimeout(() => {
      finish(true);
    }, probeTimeoutMs);
    function finish(alive: boolean): void {
      clearTimeout(timer);
      probe.destroy();
      resolve(alive);
    }
    probe.once("connect", () => {
      finish(true);
    });
    probe.once("error", (error) => {
      clearTimeout(timer);
      if (hasCode(error, ...notServed)) resolve(false);
      // Its backlog is full.
      else if (hasCode(error, "EAGAIN")) resolve(true);
      else reject(error);
    });
  });
}

async function listen(server: Server, path: string, mode: number): Promise<void> {
  // Node binds before listen() returns, so nothing else runs under this umask.
  const previous = process.umask(0o777 & ~mode);
  try {
    server.listen({ path, exclusive: true });
  } finally {
    process.umask(previous);
  }
  await once(server, "listening");
}

async function unlinkIfOurs(path: string, own: FileIdentity): Promise<void> {
  try {
    // By the thread pool: while all of its threads hang in the kernel, the name stays, for they may still write.
    await lstat(path);
    removeExactly(path, own);
  } catch {
    // The directory is gone, for example: a stale socket file does no harm, the next server replaces it.
  }
}

function failure(path: string, error: unknown): ShimError {
  const action = `listen on ${JSON.stringify(path)}`;
  if (error instanceof ShimError) return error.within(action);
  return new ShimError("precondition", `${action}: ${messageOf(error)}`, {}, { cause: error });
}

/** Addresses of local sockets, of which named pipes of Windows are one kind: Node.js connects to both by a path. */
export const pipePrefix = "//./pipe/";

/** `unix:///path`; of a named pipe `npipe:////./pipe/NAME`. */
export function formatSocketPath(path: string): string {
  return `${path.startsWith(pipePrefix) ? "npipe" : "unix"}://${path}`;
}
