import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import type { Logger } from "../../lib/log.js";
import { isNamespace, KernelNamespaces, type NetworkNamespaces } from "../../lib/linux/network-namespaces.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type {
  CdiSpecDocument,
  CgroupDirectories,
  CgroupSettings,
  CheckpointContent,
  FoundPaths,
  HostFunctions,
  OpenFileLimits,
  PathsToFind,
  Provable,
  ProvenNamespace,
} from "../ports/host.js";
import { dirname } from "node:path";
import { archiveCheckpoint, removeAbandoned } from "./checkpoint-archive.js";
import { killCheckpoint } from "./kill-checkpoint.js";
import { type IdMaps, writeRootChanges } from "./root-changes.js";
import { checkpointTask, findRuntimeTask, resumeTask } from "./runtime-task.js";
import { setUnitProperties, unitsLoadedMark } from "./cgroup/scope-units.js";
import {
  applyCgroup,
  cgroupOf,
  type CgroupTarget,
  limitsHugepages,
  presentCgroup,
} from "./cgroup/write-cgroup-limits.js";
import { type CgroupMounts, ContainerCgroup, readCgroupMounts } from "./cgroup/cgroup-paths.js";
import type { HostPaths } from "./host-paths/host-paths.js";
import {
  type EngineStorage,
  imageDirectory,
  layerDirectories,
  WritableLayerDirectories,
} from "./image-storage.js";
import { deadLogLinks, linkLog, restoreLogLink, unlinkLog } from "./log-link.js";
import { openFileLimits } from "./processes/container-processes.js";
import { isCgroupOf, procCgroup, ProcFiles } from "./processes/proc-files.js";
import { killProcessTree } from "./processes/process-tree.js";
import { closeSync, openSync } from "node:fs";
import * as nodeFiles from "./node-files.js";

export type PathFinder = Pick<HostPaths, "find">;

/** Leaves all paths to the engine. */
export const noPathFinder: PathFinder = { find: () => Promise.resolve(undefined) };

/** The engine's files can be reached. Its processes may be in another PID namespace: each is checked. */
export class LocalHost implements HostFunctions {
  readonly readNodeFile = nodeFiles.readNodeFile;
  readonly fileSystemUsage = nodeFiles.fileSystemUsage;
  readonly loadedAppArmorProfiles = nodeFiles.loadedAppArmorProfiles;
  readonly killProcessTree = killProcessTree;
  readonly unlinkLog = unlinkLog;
  readonly deadLogLinks = deadLogLinks;
  readonly layerDirectories = layerDirectories;
  #cgroupMounts: CgroupMounts | undefined;
  readonly #said = new Set<string>();
  #imageDirectory: Promise<string> | undefined;
  readonly #writableLayers: WritableLayerDirectories;

  constructor(
    private readonly facts: Pick<NodeFacts, "cgroupVersion"> & EngineStorage,
    private readonly log: Pick<Logger, "warn">,
    private readonly namespaces: NetworkNamespaces = new KernelNamespaces(),
    private readonly hostPaths: PathFinder = noPathFinder,
  ) {
    this.#writableLayers = new WritableLayerDirectories(facts);
  }

  async writeResolvConf(sandbox: Snapshot, content: string): Promise<boolean> {
    if (sandbox.resolvConfPath === "") {
      throw new ShimError("unavailable", "the engine names no resolv.conf for the sandbox", {
        sandboxId: sandbox.id,
      });
    }
    return nodeFiles.rewriteInPlace(sandbox.resolvConfPath, content);
  }

  networkNamespace(sandbox: Snapshot): ProvenNamespace | undefined {
    const proven = this.proveNetworkNamespace(sandbox);
    proven?.proof?.[Symbol.dispose]();
    return proven && { netns: proven.netns, netnsIdentity: proven.netnsIdentity };
  }

  /** Of the process whose cgroup is the sandbox's. The node's own only for a pod in the host's network. */
  proveNetworkNamespace(sandbox: Snapshot): (ProvenNamespace & Provable) | undefined {
    const { pid } = sandbox.state;
    if (pid <= 1) return undefined;
    const netns = namespacePath(pid);
    const proof = this.namespaces.prove(netns);
    if (proof === undefined) return undefined;
    const isOfSandbox = proof.directory !== undefined && isCgroupOf(sandbox.id, procCgroup(proof.directory));
    if (isOfSandbox && (!proof.own || sandbox.networkMode === "host"))
      return { netns, netnsIdentity: proof.identity, proof };
    proof[Symbol.dispose]();
    return undefined;
  }

  /** An open namespace stays the same one, so the proof comes afterwards. */
  openNetworkNamespace(sandbox: Snapshot): number | undefined {
    let descriptor: number;
    try {
      descriptor = openSync(namespacePath(sandbox.state.pid), "r");
    } catch (error) {
      if (hasCode(error, "EMFILE", "ENFILE")) throw fileError("open", "the network namespace", error);
      return undefined;
    }
    const proven = this.networkNamespace(sandbox);
    if (proven !== undefined && isNamespace(proven.netnsIdentity, descriptor)) return descriptor;
    closeSync(descriptor);
    return undefined;
  }

  /** A log driver without files (journald, none) leaves nothing to link. */
  async linkLog(link: string, container: Snapshot): Promise<void> {
    if (container.logPath !== "") await linkLog(link, container.logPath);
  }

  async restoreLogLink(link: string, container: Snapshot): Promise<boolean> {
    return container.logPath === "" || restoreLogLink(link, container.logPath);
  }

  async applyCgroup({ id, state }: Snapshot, settings: CgroupSettings): Promise<void> {
    const without = await applyCgroup(await this.#cgroupTarget(id, state.pid), settings);
    if (without.length === 0) return;
    this.#warnOnce(
      { containerId: id, pageSizes: without },
      "no limits of hugepages: the host has no controller",
    );
  }

  async limitsHugepages(): Promise<boolean> {
    return limitsHugepages(await this.#readCgroupMounts(), this.facts.cgroupVersion);
  }

  async presentCgroup(
    { id, state }: Snapshot,
    settings: CgroupSettings,
  ): Promise<CgroupSettings | undefined> {
    return presentCgroup(await this.#cgroupTarget(id, state.pid), settings);
  }

  async setScopeProperties(
    { id, state }: Snapshot,
    assignments: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const target = await this.#cgroupTarget(id, state.pid);
    const scope = (await cgroupOf(target))?.scope;
    if (scope === undefined) return;
    try {
      await setUnitProperties(scope, assignments, signal);
    } catch (error) {
      signal.throwIfAborted();
      // The scope ends with the container.
      if ((await cgroupOf(target)) === undefined) return;
      this.#warnOnce(
        { containerId: id, err: messageOf(error) },
        "limits are no properties of the container's scope: they are written again when systemd has reset them",
      );
    }
  }

  unitsLoaded(): Promise<string | undefined> {
    return unitsLoadedMark();
  }

  async #cgroupTarget(containerId: string, pid: number): Promise<CgroupTarget> {
    const { cgroupVersion } = this.facts;
    return { containerId, pid, cgroupVersion, mounts: await this.#readCgroupMounts() };
  }

  /** Hierarchies are mounted once, at the start of the host; the table is long. */
  async #readCgroupMounts(): Promise<CgroupMounts> {
    return (this.#cgroupMounts ??= await readCgroupMounts(new ProcFiles()));
  }

  /** What is said of the node, and not of one container. */
  #warnOnce(fields: Readonly<Record<string, unknown>>, message: string): void {
    if (this.#said.has(message)) return;
    this.#said.add(message);
    this.log.warn(fields, message);
  }

  async archiveCheckpoint(
    container: Snapshot,
    location: string,
    content: CheckpointContent,
    { signal, timeoutMs }: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<void> {
    const {
      id: containerId,
      state: { pid },
    } = container;
    const task = await findRuntimeTask({ containerId, pid });
    const [upper, maps] = [await this.writableLayer(container), await idMapsOf(pid)];
    const dump: Parameters<typeof archiveCheckpoint>[3] = async (to) => {
      await checkpointTask(task, { ...to, timeoutMs, signal });
      if (upper === undefined) return;
      const omitted = await writeRootChanges(upper, to.work, maps, signal);
      if (omitted > 0)
        this.log.warn(
          { containerId, omitted },
          "files of the container are not in the archive of its checkpoint",
        );
    };
    await archiveCheckpoint(task, location, content, dump, signal);
  }

  async endCheckpoint(containerId: string, location: string, container: Snapshot | undefined): Promise<void> {
    await killCheckpoint(containerId, location);
    if (container !== undefined)
      await resumeTask(await findRuntimeTask({ containerId, pid: container.state.pid }));
    await removeAbandoned(dirname(location));
  }

  async cgroupDirectories({ id, state }: Snapshot): Promise<CgroupDirectories | undefined> {
    const text = state.pid > 1 ? procCgroup(`/proc/${state.pid}`) : undefined;
    if (text === undefined || !isCgroupOf(id, text)) return undefined;
    const mounts = await this.#readCgroupMounts();
    try {
      return new ContainerCgroup(id, text, mounts).directories();
    } catch (error) {
      // The cgroup lies outside of what is mounted here: this program is in a container itself.
      if (isKind(error, "unsupported")) return undefined;
      throw error;
    }
  }

  openFileLimits({ id: containerId, state: { pid } }: Snapshot): Promise<OpenFileLimits | undefined> {
    return openFileLimits(new ProcFiles(), { containerId, pid });
  }

  writableLayer(container: Snapshot): Promise<string | undefined> {
    return this.#writableLayers.directoryOf(container);
  }

  /** Looked up once: a host object serves one connection to an engine. */
  imageDirectory(facts: NodeFacts): Promise<string> {
    return (this.#imageDirectory ??= imageDirectory(facts));
  }

  findPaths(paths: PathsToFind, sandboxId: string, signal: AbortSignal): Promise<FoundPaths | undefined> {
    return this.hostPaths.find(paths, sandboxId, signal);
  }

  readCdiSpecs(directories: readonly string[]): Promise<readonly CdiSpecDocument[]> {
    return nodeFiles.readCdiSpecs(directories, this.log);
  }
}

function namespacePath(pid: number): string {
  return `/proc/${pid}/ns/net`;
}

async function idMapsOf(pid: number): Promise<IdMaps> {
  const proc = new ProcFiles();
  const [uids = "", gids = ""] = await Promise.all(
    ["uid_map", "gid_map"].map((name) => proc.text(pid, name)),
  );
  return { uids, gids };
}
