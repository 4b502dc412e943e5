/** Whether the engine sees what is made here, and whether its processes, cgroups and namespaces are visible here. */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, rmdir, stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { closeSync, openSync, readlinkSync, statSync } from "node:fs";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import { messageOf } from "../../lib/errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Engine } from "../ports/engine.js";
import { type JobReach, notReached, type ReachedJobs } from "../../domain/reach.js";
import type { NetworkNamespaces } from "../../lib/linux/network-namespaces.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { HostAccess } from "../ports/host.js";
import { isCgroupOf, procCgroup } from "./processes/proc-files.js";

export type Outcome =
  | { readonly proven: true }
  /** `unmade`: nothing could be made there, so that the engine was not asked. */
  | { readonly proven: false; readonly reason: string; readonly unmade?: true };

const proven: Outcome = { proven: true };
const failed = (reason: string): Outcome => ({ proven: false, reason });

const notSeen = (directory: string): string =>
  `the engine does not find what this program makes in ${JSON.stringify(directory)}`;

/** Outcomes in the order of `directories`. Nothing stays behind, here or on the engine. */
export async function proveDirectories(
  directories: readonly string[],
  engine: Pick<Engine, "firstMissingPath">,
  signal: AbortSignal,
): Promise<readonly Outcome[]> {
  const name = randomName();
  const outcomes = new Map<string, Outcome>();
  const made: string[] = [];
  try {
    for (const directory of new Set(directories)) {
      try {
        await mkdir(join(directory, name), { mode: 0o700 });
        made.push(directory);
      } catch (error) {
        const reason = fileError("make a directory in", directory, error).message;
        outcomes.set(directory, { proven: false, reason, unmade: true });
      }
    }
    await ask(made, name, engine, outcomes, signal);
  } finally {
    await Promise.all(made.map((directory) => rmdir(join(directory, name)).catch(() => undefined)));
  }
  return directories.map((directory) => outcomes.get(directory) ?? proven);
}

function randomName(): string {
  return `dockershim-proof-${randomBytes(16).toString("hex")}`;
}

/** One request where the engine finds all; one more for each directory that it does not find. */
async function ask(
  made: readonly string[],
  name: string,
  engine: Pick<Engine, "firstMissingPath">,
  outcomes: Map<string, Outcome>,
  signal: AbortSignal,
): Promise<void> {
  let open = [...made];
  while (open.length > 0) {
    const neverMade = join(open[0] ?? "", randomName());
    let missing: string | undefined;
    try {
      const paths = [...open.map((directory) => join(directory, name)), neverMade];
      missing = await engine.firstMissingPath(paths, signal);
    } catch (error) {
      signal.throwIfAborted();
      for (const directory of open) outcomes.set(directory, failed(messageOf(error)));
      return;
    }
    if (missing === neverMade) return;
    const absent = open.find((directory) => join(directory, name) === missing);
    if (absent === undefined) {
      for (const directory of open)
        outcomes.set(directory, failed("the engine does not tell which paths it has"));
      return;
    }
    outcomes.set(absent, failed(notSeen(absent)));
    open = open.filter((directory) => directory !== absent);
  }
}

/** Where nothing may be made: by the id that Docker Engine 24 and newer write, or a container's directory. */
export async function proveByIds(
  { dockerRootDir, engineId }: Pick<NodeFacts, "dockerRootDir" | "engineId">,
  containerIds: () => Promise<readonly string[]>,
): Promise<Outcome> {
  const root = JSON.stringify(dockerRootDir);
  if (!isAbsolute(dockerRootDir)) return failed("the engine names no data root");
  const written = (await readFile(join(dockerRootDir, "engine-id"), "utf8").catch(() => "")).trim();
  if (written !== "" && engineId !== "")
    return written === engineId ? proven : failed(`${root} has the id of another engine`);
  const [id] = await containerIds();
  if (id === undefined)
    return failed(`${root} has no engine-id, and the engine has no container to look for`);
  const found = await stat(join(dockerRootDir, "containers", id)).catch(() => undefined);
  return found?.isDirectory() === true ? proven : failed(`${root} does not have the engine's containers`);
}

/** Proves by one running container which of the engine's processes, cgroups and namespaces are visible here. */
export type ProcessJobs = Pick<ReachedJobs, "processes" | "cgroups" | "networkNamespaces">;

interface ProcessProofDeps {
  readonly host: Pick<HostAccess, "cgroupDirectories">;
  readonly namespaces: NetworkNamespaces;
}

/**
 * Undefined for a container that ends meanwhile, which proves nothing. Where its process is not visible, the caller asks the
 * engine whether it runs before it believes that. Throws `unavailable` when this program is out of file descriptors.
 */
export async function proveProcesses(
  container: Snapshot,
  deps: ProcessProofDeps,
): Promise<ProcessJobs | undefined> {
  const found = await lookAt(container, deps);
  if (found !== undefined && Object.values(found).some(({ reached }: JobReach) => !reached))
    requireDescriptors();
  return found;
}

/** Two: a namespace is looked at by an open directory, and by a file in it. What cannot be opened looks as if it were not there. */
function requireDescriptors(): void {
  const open: number[] = [];
  try {
    for (const path of ["/proc/self", "/proc/self/stat"]) open.push(openSync(path, "r"));
  } catch (error) {
    throw fileError("open", "/proc/self", error);
  } finally {
    for (const descriptor of open) closeSync(descriptor);
  }
}

async function lookAt(
  container: Snapshot,
  { host, namespaces }: ProcessProofDeps,
): Promise<ProcessJobs | undefined> {
  const { id, state } = container;
  if (!isProcessOf(container)) {
    const reason =
      "the process of a running container is not visible here: " +
      "the engine is in a VM, on another host, or in another PID namespace";
    return {
      processes: notReached("processes", reason),
      cgroups: notReached("cgroups", reason),
      networkNamespaces: notReached("networkNamespaces", reason),
    };
  }
  const found = await host.cgroupDirectories(container);
  const [directory] = found?.directories.values() ?? [];
  const isThere = directory !== undefined && statSync(directory, { throwIfNoEntry: false }) !== undefined;
  const cgroups: JobReach = isThere
    ? { reached: true }
    : notReached("cgroups", `the cgroup of container "${id.slice(0, 12)}" is not mounted here`);
  const isSeen = namespaces.look(`/proc/${state.pid}/ns/net`) !== undefined;
  if (!isSeen && hasLeftNamespaces(state.pid)) return undefined;
  const networkNamespaces: JobReach = isSeen
    ? { reached: true }
    : notReached("networkNamespaces", "this program may not look at the processes of containers");
  // Read once more: all of it was seen of this container only if the process is still its own.
  return isProcessOf(container) ? { processes: { reached: true }, cgroups, networkNamespaces } : undefined;
}

/** A process that ends has no namespaces any more while it still has its cgroup. */
export function hasLeftNamespaces(pid: number): boolean {
  try {
    readlinkSync(`/proc/${pid}/ns/net`);
    return false;
  } catch (error) {
    return hasCode(error, "ENOENT", "ESRCH");
  }
}

function isProcessOf({ id, state: { pid } }: Snapshot): boolean {
  return pid > 1 && isCgroupOf(id, procCgroup(`/proc/${pid}`));
}
