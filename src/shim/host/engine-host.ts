import { stat } from "node:fs/promises";
import { release } from "node:os";
import { isAbsolute, join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { sleep, withDeadline } from "../../lib/abort.js";
import { directoryId } from "../../lib/files/directory-id.js";
import { KernelNamespaces, type NetworkNamespaces } from "../../lib/linux/network-namespaces.js";
import type { Logger } from "../../lib/log.js";
import { typeLabel } from "../../domain/labels.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import {
  type JobReach,
  notReached,
  pendingReach,
  type Reach,
  type ReachedJobs,
  type ReachJob,
  type ReachMode,
  reachOf,
  reachProblem,
  sameForAll,
  type SeenDirectory,
  tries,
} from "../../domain/reach.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess, HostFunctions } from "../ports/host.js";
import { LocalHost, noPathFinder, type PathFinder } from "./local-host.js";
import {
  type Outcome,
  proveByIds,
  proveDirectories,
  type ProcessJobs,
  proveProcesses,
} from "./prove-reach.js";
import { RemoteHost } from "./remote-host.js";

/** Deadline of all proofs of a connect together. What is not proven in time is out of reach until the next connect. */
const proofMs = 20_000;

/** Much longer than an engine takes to learn that a process has ended. */
const endIsKnownMs = 1_000;

export interface EngineHostDeps {
  readonly engine: Pick<Engine, "firstMissingPath" | "listContainers" | "inspectContainer">;
  readonly mode: ReachMode;
  /** A directory of this program, for the proof of host paths. */
  readonly directory: string;
  /** Makes nothing: files are proven by ids, host paths not at all. */
  readonly readOnly?: boolean;
  readonly hostPaths?: PathFinder;
  readonly namespaces?: NetworkNamespaces;
  readonly log: Pick<Logger, "warn">;
  /** How long the engine is given to learn that a process has ended, before it is asked; default 1 s. */
  readonly endIsKnownMs?: number;
}

/** For one connection. Each job is proven: files at the connect, processes by the first container. */
export class EngineHost {
  readonly host: HostAccess;
  readonly #local: LocalHost;
  readonly #namespaces: NetworkNamespaces;
  #jobs: ReachedJobs;
  #proving: Promise<boolean> | undefined;

  private constructor(
    private readonly facts: NodeFacts,
    jobs: ReachedJobs,
    private readonly directory: SeenDirectory | undefined,
    private readonly deps: EngineHostDeps,
  ) {
    this.#jobs = jobs;
    this.#namespaces = deps.namespaces ?? new KernelNamespaces();
    this.#local = new LocalHost(facts, deps.log, this.#namespaces, deps.hostPaths ?? noPathFinder);
    this.host = composeHost(() => this.reach, this.#local, new RemoteHost());
  }

  get reach(): Reach {
    return reachOf(this.deps.mode, this.#jobs, this.directory);
  }

  /** With the proofs that need no container. Throws only the reason of `signal`. */
  static async connected(facts: NodeFacts, deps: EngineHostDeps, signal: AbortSignal): Promise<EngineHost> {
    const path = deps.directory;
    const id = await directoryId(path);
    const jobs = await provenAtConnect(facts, deps, signal);
    return new EngineHost(facts, jobs, id === undefined ? undefined : { path, id }, deps);
  }

  /** To be told of each container: true when it proves something. One that ends meanwhile proves nothing. */
  async observe(container: Snapshot | undefined, signal: AbortSignal): Promise<boolean> {
    if (container?.state.running !== true || !this.#isOpen() || this.#proving !== undefined) return false;
    // The process that the engine names for a container in a VM of its own may be anything.
    if (this.facts.runtimes.some(({ name, kind }) => name === container.runtime && kind !== "runc"))
      return false;
    this.#proving = this.#prove(container, signal);
    try {
      return await this.#proving;
    } catch (error) {
      signal.throwIfAborted();
      this.deps.log.warn({ err: messageOf(error) }, "the reach of the engine's processes was not proven");
      return false;
    } finally {
      this.#proving = undefined;
    }
  }

  /** Proves by a pod's container that runs now, if there is one. */
  async observeAny(signal: AbortSignal): Promise<void> {
    const { engine } = this.deps;
    if (!this.#isOpen()) return;
    const listed = await engine.listContainers({ labelKey: typeLabel }, signal);
    const running = listed.find(({ status }) => status === "running");
    if (running !== undefined) await this.observe(await engine.inspectContainer(running.id, signal), signal);
  }

  #isOpen(): boolean {
    const { processes } = this.#jobs;
    return !processes.reached && processes.pending === true;
  }

  async #prove(container: Snapshot, signal: AbortSignal): Promise<boolean> {
    const deps = { host: this.#local, namespaces: this.#namespaces };
    const first = await proveProcesses(container, deps);
    if (first === undefined) return false;
    if (first.processes.reached) return this.#know(first);
    // The engine learns of the end of a process a moment later.
    await sleep(this.deps.endIsKnownMs ?? endIsKnownMs, signal);
    const { state } = (await this.deps.engine.inspectContainer(container.id, signal)) ?? {};
    // The process that was looked for still runs, so it ran then.
    return state?.running === true && state.pid === container.state.pid ? this.#know(first) : false;
  }

  #know(found: ProcessJobs): true {
    this.#jobs = { ...this.#jobs, ...found };
    return true;
  }
}

/** The host before the first connect. */
export function unknownHost(mode: ReachMode): HostAccess {
  const reach = reachOf(
    mode,
    sameForAll((job) => beforeConnect(job, mode)),
  );
  const remote = new RemoteHost();
  return composeHost(() => reach, remote, remote);
}

/** Throws `precondition`, which names the jobs, where `--engine-reach=host` asks for more than is proven. */
export function requireReach(reach: Reach): void {
  const problem = reachProblem(reach);
  if (problem !== undefined) throw new ShimError("precondition", problem);
}

/** Does each job where it is in reach as `local` does, else as `remote` does: decided at each call. */
function composeHost(reach: () => Reach, local: HostFunctions, remote: HostFunctions): HostAccess {
  const by = (...jobs: readonly ReachJob[]): HostFunctions => (tries(reach(), ...jobs) ? local : remote);
  const onHost = (): HostFunctions => (reach().host ? local : remote);
  return {
    get reach() {
      return reach();
    },
    /** Profiles are read here and sent to the engine as text. */
    readNodeFile: (...given) => local.readNodeFile(...given),
    /** Asked where the OCI runtime of the engine reaches this program's socket. */
    limitsHugepages: () => local.limitsHugepages(),
    writeResolvConf: (...given) => by("files").writeResolvConf(...given),
    linkLog: (...given) => by("files").linkLog(...given),
    restoreLogLink: (...given) => by("files").restoreLogLink(...given),
    unlinkLog: (...given) => by("files").unlinkLog(...given),
    deadLogLinks: (...given) => by("files").deadLogLinks(...given),
    writableLayer: (...given) => by("files").writableLayer(...given),
    layerDirectories: (...given) => by("files").layerDirectories(...given),
    imageDirectory: (...given) => by("files").imageDirectory(...given),
    fileSystemUsage: (...given) => by("files").fileSystemUsage(...given),
    killProcessTree: (...given) => by("processes").killProcessTree(...given),
    openFileLimits: (...given) => by("processes").openFileLimits(...given),
    networkNamespace: (...given) => by("networkNamespaces").networkNamespace(...given),
    proveNetworkNamespace: (...given) => by("networkNamespaces").proveNetworkNamespace(...given),
    openNetworkNamespace: (...given) => by("networkNamespaces").openNetworkNamespace(...given),
    applyCgroup: (...given) => by("cgroups").applyCgroup(...given),
    presentCgroup: (...given) => by("cgroups").presentCgroup(...given),
    setScopeProperties: (...given) => by("cgroups").setScopeProperties(...given),
    unitsLoaded: () => by("cgroups").unitsLoaded(),
    cgroupDirectories: (...given) => by("cgroups").cgroupDirectories(...given),
    // A path below the state directory proves nothing of others: Docker Desktop shares some directories only.
    findPaths: (...given) => by("files", "hostPaths").findPaths(...given),
    readCdiSpecs: (...given) => by("files", "hostPaths").readCdiSpecs(...given),
    archiveCheckpoint: (...given) => by("files", "processes", "hostPaths").archiveCheckpoint(...given),
    endCheckpoint: (...given) => by("files", "processes", "hostPaths").endCheckpoint(...given),
    loadedAppArmorProfiles: (...given) => onHost().loadedAppArmorProfiles(...given),
  };
}

function beforeConnect(job: ReachJob, mode: ReachMode): JobReach {
  return mode === "remote" ? unused(job) : pendingReach(job, "no engine has answered yet");
}

function unused(job: ReachJob): JobReach {
  return notReached(job, "--engine-reach=remote");
}

async function provenAtConnect(
  facts: NodeFacts,
  deps: EngineHostDeps,
  signal: AbortSignal,
): Promise<ReachedJobs> {
  if (deps.mode === "remote") return sameForAll(unused);
  let found: Pick<ReachedJobs, "files" | "hostPaths">;
  try {
    found = await withDeadline(signal, proofMs, "prove the reach of the engine's host", (limited) =>
      proveFiles(facts, deps, limited),
    );
  } catch (error) {
    signal.throwIfAborted();
    const reason = messageOf(error);
    found = { files: notReached("files", reason), hostPaths: notReached("hostPaths", reason) };
  }
  const kernel = facts.kernelVersion;
  const ofProcesses = (name: ReachJob): JobReach =>
    kernel === release()
      ? pendingReach(name, "no container of a pod runs yet")
      : notReached(name, `the engine runs under another kernel (${kernel})`);
  return {
    ...found,
    processes: ofProcesses("processes"),
    cgroups: ofProcesses("cgroups"),
    networkNamespaces: ofProcesses("networkNamespaces"),
  };
}

/** Below the data root in `tmp`, which the engine clears at its start, where there is one. */
async function proveFiles(
  facts: NodeFacts,
  { engine, directory, readOnly = false }: EngineHostDeps,
  signal: AbortSignal,
): Promise<Pick<ReachedJobs, "files" | "hostPaths">> {
  const byIds = async (): Promise<JobReach> => {
    const ids = async (): Promise<readonly string[]> =>
      (await engine.listContainers({}, signal)).map(({ id }) => id);
    return asJob("files", await proveByIds(facts, ids));
  };
  if (readOnly) {
    const reason = "a server that only reads makes no directory for the proof";
    return { files: await byIds(), hostPaths: pendingReach("hostPaths", reason) };
  }
  const root = facts.dockerRootDir;
  if (!isAbsolute(root)) {
    const [hostPaths] = await proveDirectories([directory], engine, signal);
    const reason = "the engine names no data root of this kind of host";
    return { files: notReached("files", reason), hostPaths: asJob("hostPaths", hostPaths) };
  }
  const [below, top, hostPaths] = await proveDirectories(
    [join(root, "tmp"), root, directory],
    engine,
    signal,
  );
  const isReadOnlyHere = top?.proven === false && top.unmade === true && (await isDirectory(root));
  return {
    files:
      below?.proven === true ? asJob("files", below) : isReadOnlyHere ? await byIds() : asJob("files", top),
    hostPaths: asJob("hostPaths", hostPaths),
  };
}

function asJob(job: ReachJob, outcome: Outcome | undefined): JobReach {
  if (outcome?.proven === true) return { reached: true };
  return notReached(job, outcome?.reason ?? "no proof was made");
}

async function isDirectory(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true;
}
