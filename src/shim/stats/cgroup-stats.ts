/** Statistics from cgroup files and /proc of this host, without requests to the engine. */
import { posix } from "node:path";
import type { Logger } from "../../lib/log.js";
import { messageOf } from "../../lib/errors.js";
import type { InterfaceReading, ResourceReading } from "../../domain/resource-reading.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { HostAccess } from "../ports/host.js";
import type { PodParts, PodReading, ReadOptions, StatsSource } from "../ports/stats.js";
import { Cgroup } from "./cgroup/cgroup.js";
import { CpuRate } from "./cpu-rate.js";
import { DescriptorCache, ProcessDirectory } from "./descriptor-cache.js";
import { interfacesLimitBytes, parseInterfaces } from "./network-interfaces.js";
import { CallLooks, countProcesses, type PodLooks } from "./process-counts.js";
import { sumReadings } from "./sum-readings.js";

/** What is known of a container since it was started. */
interface Known {
  /** Another start has another cgroup and another process. */
  readonly started: bigint;
  readonly pid: number;
  /** Undefined: out of reach. */
  readonly cgroup: Cgroup | undefined;
  /** For sandboxes: the pod's cgroup, which is the parent of theirs. */
  readonly parent: Cgroup | undefined;
  /** For sandboxes without a cgroup of the whole pod. */
  readonly podRate: CpuRate;
  process: ProcessDirectory | undefined;
}

/** One container or pod within one call. */
interface Reading {
  readonly options: ReadOptions;
  readonly signal: AbortSignal;
  /** With details only. */
  readonly looks?: PodLooks;
}

export interface CgroupStatsDeps {
  readonly host: Pick<HostAccess, "cgroupDirectories" | "networkNamespace">;
  /** For containers whose cgroup is out of reach: processes of another PID namespace. */
  readonly elsewhere: StatsSource;
  readonly log: Pick<Logger, "warn">;
  readonly files?: DescriptorCache;
  readonly procRoot?: string;
}

export class CgroupStats implements StatsSource {
  readonly #known = new Map<string, Known>();
  /** Why containers could not be read: logged once per reason. */
  readonly #failed = new Map<string, string>();
  readonly #files: DescriptorCache;
  #closed = false;

  constructor(private readonly deps: CgroupStatsDeps) {
    this.#files = deps.files ?? new DescriptorCache();
  }

  /** For metrics: descriptors that are kept, and containers whose latest reading failed. */
  get counts(): { readonly keptFiles: number; readonly unreadable: number } {
    return { keptFiles: this.#files.kept, unreadable: this.#failed.size };
  }

  async *readContainers(
    containers: readonly Snapshot[],
    options: ReadOptions,
    signal: AbortSignal,
  ): AsyncGenerator<readonly [string, ResourceReading]> {
    const unreachable: Snapshot[] = [];
    const call = new CallLooks();
    let left = containers.length;
    const plain: Reading = { options, signal };
    for (const container of containers) {
      const own = options.details ? { ...plain, looks: call.forPod(left--) } : plain;
      const reading = await this.#readContainer(container, unreachable, own);
      if (reading !== undefined) yield [container.id, reading];
    }
    if (unreachable.length > 0) yield* this.deps.elsewhere.readContainers(unreachable, options, signal);
  }

  async *readPods(
    pods: readonly PodParts[],
    options: ReadOptions,
    signal: AbortSignal,
  ): AsyncGenerator<readonly [string, PodReading]> {
    const unreachable: PodParts[] = [];
    const unreachableContainers: Snapshot[] = [];
    const incomplete: (readonly [PodParts, Map<string, ResourceReading>, Reading])[] = [];
    const call = new CallLooks();
    let left = pods.length;
    const plain: Reading = { options, signal };
    for (const pod of pods) {
      const own = options.details ? { ...plain, looks: call.forPod(left--) } : plain;
      signal.throwIfAborted();
      const known = this.#current(pod.sandbox) ?? (await this.#find(pod.sandbox));
      if (known?.cgroup === undefined) {
        if (known !== undefined) unreachable.push(pod);
        continue;
      }
      const containers = new Map<string, ResourceReading>();
      const before = unreachableContainers.length;
      for (const container of pod.containers) {
        const reading = await this.#readContainer(container, unreachableContainers, own);
        if (reading !== undefined) containers.set(container.id, reading);
      }
      if (unreachableContainers.length > before) {
        incomplete.push([pod, containers, own]);
        continue;
      }
      const reading = await this.#readPod(pod, containers, own);
      if (reading !== undefined) yield [pod.sandbox.id, reading];
    }
    // One call for the containers of all pods.
    const others = new Map<string, ResourceReading>();
    if (unreachableContainers.length > 0) {
      const readings = this.deps.elsewhere.readContainers(unreachableContainers, options, signal);
      for await (const [id, reading] of readings) others.set(id, reading);
    }
    for (const [pod, containers, own] of incomplete) {
      for (const { id } of pod.containers) {
        const reading = others.get(id);
        if (reading !== undefined) containers.set(id, reading);
      }
      const reading = await this.#readPod(pod, containers, own);
      if (reading !== undefined) yield [pod.sandbox.id, reading];
    }
    if (unreachable.length > 0) yield* this.deps.elsewhere.readPods(unreachable, options, signal);
  }

  /** Nanoseconds of CPU time since its start; undefined when that cannot be said. */
  async cpuTime(container: Snapshot): Promise<number | undefined> {
    const known = await this.#find(container);
    return this.#guard(container.id, () => known?.cgroup?.cpuTime());
  }

  forgetAllBut(isRunning: (id: string) => boolean): void {
    for (const id of this.#known.keys()) if (!isRunning(id)) this.#forget(id);
    for (const id of this.#failed.keys()) if (!isRunning(id)) this.#failed.delete(id);
    this.deps.elsewhere.forgetAllBut(isRunning);
  }

  failureOf(id: string): string | undefined {
    return this.#failed.get(id) ?? this.deps.elsewhere.failureOf(id);
  }

  close(): void {
    this.#closed = true;
    this.forgetAllBut(() => false);
    this.deps.elsewhere.close();
  }

  /** Undefined also for a container that is out of reach, which is added to `unreachable`. */
  async #readContainer(
    container: Snapshot,
    unreachable: Snapshot[],
    own: Reading,
  ): Promise<ResourceReading | undefined> {
    own.signal.throwIfAborted();
    const known = this.#current(container) ?? (await this.#find(container));
    if (known?.cgroup !== undefined) return this.#read(container.id, known.cgroup, own);
    if (known !== undefined) unreachable.push(container);
    return undefined;
  }

  /** Reads a pod in reach, with the readings of its containers; undefined if it has ended meanwhile. */
  async #readPod(
    pod: PodParts,
    containers: ReadonlyMap<string, ResourceReading>,
    own: Reading,
  ): Promise<PodReading | undefined> {
    const { sandbox } = pod;
    // Again: a concurrent call may have forgotten it meanwhile.
    const known = this.#current(sandbox) ?? (await this.#find(sandbox));
    if (known?.cgroup === undefined) return undefined;
    const interfaces = pod.hostNetwork ? undefined : this.#interfaces(sandbox, known);
    const resources = await this.#readResources(pod, known, containers, own);
    return { resources, interfaces, containers };
  }

  async #readResources(
    { sandbox, hasOwnCgroup }: PodParts,
    known: Known,
    containers: ReadonlyMap<string, ResourceReading>,
    own: Reading,
  ): Promise<ResourceReading | undefined> {
    if (hasOwnCgroup && known.parent !== undefined) {
      // Its processes are in the cgroups below.
      return this.#guard(sandbox.id, () => known.parent?.read(own.options));
    }
    const { cgroup } = known;
    const pause = cgroup === undefined ? undefined : await this.#read(sandbox.id, cgroup, own);
    const sum = pause === undefined ? undefined : sumReadings([pause, ...containers.values()]);
    if (sum === undefined) return undefined;
    const usage = sum.cpu?.usageNanoseconds;
    const nanoCores = usage === undefined ? undefined : known.podRate.next(usage, performance.now());
    return { ...sum, nanoCores };
  }

  async #read(
    id: string,
    cgroup: Cgroup,
    { options, looks, signal }: Reading,
  ): Promise<ResourceReading | undefined> {
    const reading = this.#guard(id, () => cgroup.read(options));
    if (reading?.details === undefined || looks === undefined) return reading;
    const processes = await countProcesses(cgroup.processes(), this.#files, looks, signal);
    return { ...reading, details: { ...reading.details, processes } };
  }

  /** When `read` throws: undefined, a log line for each new reason, and the files are opened anew. */
  #guard<T>(id: string, read: () => T | undefined): T | undefined {
    try {
      const reading = read();
      // Gone: its files must not be read again when the container is started anew.
      if (reading === undefined) this.#forget(id);
      this.#failed.delete(id);
      return reading;
    } catch (error) {
      this.#forget(id);
      const err = messageOf(error);
      if (this.#failed.get(id) !== err)
        this.deps.log.warn({ containerId: id, err }, "cannot read the statistics of the container");
      this.#failed.set(id, err);
      return undefined;
    }
  }

  #interfaces(sandbox: Snapshot, known: Known): readonly InterfaceReading[] | undefined {
    return this.#guardNetwork(sandbox.id, () => {
      const process =
        known.process ??
        ProcessDirectory.open(
          known.pid,
          this.#files,
          () => this.deps.host.networkNamespace(sandbox) !== undefined,
          this.deps.procRoot,
        );
      if (process?.isKept === true) known.process = process;
      try {
        const text = process?.text("net/dev", interfacesLimitBytes);
        return text === undefined ? undefined : parseInterfaces(text);
      } finally {
        if (process?.isKept === false) process.close();
      }
    });
  }

  /** As `#guard`, but keeps the other open files of a pod whose pause process has just ended. */
  #guardNetwork<T>(id: string, read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      this.deps.log.warn({ sandboxId: id, err: messageOf(error) }, "cannot read the network of the pod");
      return undefined;
    }
  }

  /** Undefined when it cannot be said now whether the cgroup is in reach. */
  async #find(container: Snapshot): Promise<Known | undefined> {
    const { id, state } = container;
    const known = this.#current(container);
    if (known !== undefined) return known;
    if (state.pid === 0) return undefined;
    try {
      const found = await this.deps.host.cgroupDirectories(container);
      if (this.#closed) return undefined;
      // A concurrent call may have found it.
      const meanwhile = this.#current(container);
      if (meanwhile !== undefined) return meanwhile;
      const startedAtMs = performance.now() - Math.max(Date.now() - Number(state.started / 1_000_000n), 0);
      const open = (path: string, directories: ReadonlyMap<string, string>): Cgroup =>
        new Cgroup(path, directories, this.#files, startedAtMs);
      const entry: Known = {
        started: state.started,
        pid: state.pid,
        cgroup: found === undefined ? undefined : open(found.path, found.directories),
        parent:
          found === undefined ? undefined : open(posix.dirname(found.path), parentsOf(found.directories)),
        podRate: new CpuRate(startedAtMs),
        process: undefined,
      };
      // Not remembered when out of reach: a process that has just been started may not be in its cgroup yet.
      if (found !== undefined) this.#known.set(id, entry);
      return entry;
    } catch (error) {
      return this.#guard<Known>(id, () => {
        throw error;
      });
    }
  }

  /** What is known of this start of the container. Data of an earlier start is forgotten. */
  #current({ id, state }: Snapshot): Known | undefined {
    const known = this.#known.get(id);
    if (known === undefined || (known.started === state.started && known.pid === state.pid)) return known;
    this.#forget(id);
    return undefined;
  }

  #forget(id: string): void {
    const known = this.#known.get(id);
    if (known === undefined) return;
    this.#known.delete(id);
    known.cgroup?.close();
    known.parent?.close();
    known.process?.close();
  }
}

function parentsOf(directories: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...directories].map(([controller, path]) => [controller, posix.dirname(path)]));
}
