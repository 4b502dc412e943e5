/** What keeps a node from being installed on: found before anything is changed, each with its remedy. */
import { access, constants, stat, statfs } from "node:fs/promises";
import { messageOf, ShimError } from "../lib/errors.js";
import { hasCode } from "../lib/files/file-errors.js";
import { isServed } from "../lib/unix-socket.js";
import { NodeFiles } from "../migrate/files/node-files.js";
import { listenerOf } from "../migrate/node/listeners.js";
import { isThere, nearestDirectory } from "./node-paths.js";
import type { PlannedFile } from "./plan-install.js";

/** As the Node.js inside of the executable says of itself. */
const oldestKernel = [4, 18] as const;
/** For the small files and for blocks. */
const marginBytes = 1024 * 1024;
/** Where packages have the unit. */
const packagedUnits = [
  "/usr/lib/systemd/system/dockershim.service",
  "/lib/systemd/system/dockershim.service",
];

export interface NodeFacts {
  readonly root: string;
  readonly isRoot: boolean;
  /** As `6.18.5-1`. */
  readonly kernel: string;
}

/** Throws `precondition` for a node that cannot have an installation, and for one that has a package. */
export async function checkNode({ root, isRoot, kernel }: NodeFacts): Promise<void> {
  const refuse = (reason: string): ShimError =>
    new ShimError("precondition", `install dockershim: ${reason} (nothing is changed)`);
  if (root === "/" && !isRoot) throw refuse("it writes files of root; run it as root, as by sudo");
  const [major = 0, minor = 0] = kernel.split(".").map(Number);
  const [least, leastMinor] = oldestKernel;
  if (root === "/" && (major < least || (major === least && minor < leastMinor)))
    throw refuse(`Linux ${kernel} is too old; it needs ${oldestKernel.join(".")} or later`);
  for (const unit of packagedUnits) {
    if (await isThere(root, unit))
      throw refuse(`a package of it is installed (${unit}); update it by apt-get or dnf, or remove it first`);
  }
}

/**
 * Whether a process listens there, also one that bound its socket by another name first, as this program does. /proc leaves open
 * which of such sockets is there by now: a connection tells, which would start a service where systemd listens.
 */
export async function isTaken(path: string): Promise<boolean> {
  const listener = await listenerOf(new NodeFiles("/"), path);
  return listener === "systemd" || (listener === "program" && (await isServed(path)));
}

/** For tests. */
interface PlaceChecks {
  readonly freeBytes?: (directory: string) => Promise<number>;
  readonly requireWritable?: (directory: string) => Promise<void>;
}

/** Throws `unavailable` where a file cannot be written, for lack of room or of rights. */
export async function checkPlaces(
  root: string,
  prefix: string,
  files: readonly PlannedFile[],
  {
    freeBytes = freeBytesAt,
    requireWritable = (directory) => access(directory, constants.W_OK),
  }: PlaceChecks = {},
): Promise<void> {
  const written = files.filter(({ change }) => change === "create" || change === "replace");
  const needed = new Map<number, { bytes: number; path: string; directory: string }>();
  for (const { path, content } of written) {
    const directory = await nearestDirectory(root, path);
    await requireWritable(directory).catch((error: unknown) => {
      throw notWritable(error, path, prefix);
    });
    const { dev } = await stat(directory);
    const before = needed.get(dev);
    needed.set(dev, { path, directory, ...before, bytes: (before?.bytes ?? marginBytes) + content.length });
  }
  for (const { bytes, path, directory } of needed.values()) {
    const free = await freeBytes(directory);
    if (free >= bytes) continue;
    throw new ShimError(
      "unavailable",
      `write ${JSON.stringify(path)}: ${mebibytes(bytes)} are needed and ${mebibytes(free)} are free; make room (nothing is changed)`,
    );
  }
}

function notWritable(error: unknown, path: string, prefix: string): ShimError {
  const remedy = path.startsWith(`${prefix}/`)
    ? "choose another place with --prefix, as --prefix /opt/dockershim"
    : "mount it for writing";
  const reason = hasCode(error, "EROFS") ? "the file system is read-only" : messageOf(error);
  return new ShimError(
    "unavailable",
    `write ${JSON.stringify(path)}: ${reason}; ${remedy} (nothing is changed)`,
  );
}

async function freeBytesAt(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

function mebibytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2)} MiB`;
}
