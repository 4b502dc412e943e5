/** The program on fakes, with a live read model, built by the function that builds it on the real adapters. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { afterEach, beforeEach } from "node:test";
import type { Stores } from "../../src/shim/app/open-stores.js";
import type { NetworkPlugin } from "../../src/shim/ports/network-plugin.js";
import { buildShim } from "../../src/shim/app/build-shim.js";
import { rpcs } from "../../src/shim/cri/rpcs.js";
import type { Services } from "../../src/shim/cri/services.js";
import type { ContainerConfig } from "../../src/domain/cri.js";
import type { NodeFacts } from "../../src/domain/node-facts.js";
import type { ValidatedRpc, ValidContainerConfig, ValidRunPodSandbox } from "../../src/domain/requests.js";
import type { ImageVolumeLimits } from "../../src/shim/images/image-volumes.js";
import type { PauseImageSource } from "../../src/shim/images/images.js";
import type { Call } from "../../src/lib/call.js";
import { collect } from "../../src/lib/streams.js";
import { messageOf } from "../../src/lib/errors.js";
import type { PodSandboxCheckpoint } from "../../src/shim/ports/checkpoint-store.js";
import type { OomScores } from "../../src/shim/ports/host.js";
import { ContainerRecords } from "../../src/shim/state/container-records.js";
import { PodRecords } from "../../src/shim/state/pod-records.js";
import { type StateSync, defaultStateSyncOptions } from "../../src/shim/state/state-sync.js";
import type { LayerUsage } from "../../src/shim/ports/stats.js";
import { EngineStats } from "../../src/shim/stats/engine-stats.js";
import { temporaryDirectory } from "../unit/lib/temporary-directory.js";
import { removeFileSync } from "../../src/lib/files/atomic-file.js";
import { Lifetime } from "../../src/lib/lifetime.js";
import { ContainerLogWriters } from "../../src/shim/logs/container-log-writers.js";
import { LogRecords } from "../../src/shim/logs/log-record.js";
import { initialState } from "../../src/shim/state/engine-state.js";
import { FakeEngine } from "./fake-engine.js";
import type { FakeProcess } from "./fake-execs.js";
import { FakeHost } from "./fake-host.js";
import { FakeNetwork } from "./fake-network.js";
import { FakeOciRuntimeServer } from "./fake-oci-runtime-server.js";
import { FakePodDialer } from "./fake-pod-dialer.js";
import { FakeStreamingServer } from "./fake-streaming.js";
import { Journal } from "./journal.js";
import { MemoryCheckpoints } from "./memory-checkpoints.js";
import { recordingLog } from "./recording-log.js";
import { createRequest, runRequest } from "./requests.js";
import { until } from "./turns.js";

export const pauseImage = "registry.example/pause:1";

/** What outlives a restart of the shim: the engine, the host, the network, and the files. */
export interface World {
  readonly journal: Journal;
  readonly engine: FakeEngine;
  readonly host: FakeHost;
  readonly network: FakeNetwork;
  readonly checkpoints: MemoryCheckpoints;
  readonly podDialer: FakePodDialer;
  readonly streaming: FakeStreamingServer;
  readonly directory: string;
  readonly ociRuntimeServer: FakeOciRuntimeServer;
  /** Sizes of writable layers by container id. */
  readonly layers: Map<string, LayerUsage>;
}

export class FakePauseImages implements PauseImageSource {
  readonly reference = pauseImage;

  constructor(private readonly world: Pick<World, "journal" | "engine">) {}

  ensure(): Promise<string> {
    const { journal, engine } = this.world;
    return journal.do("pauseImages", "ensure", [], () => {
      if (engine.images.find(pauseImage) === undefined) engine.images.add({ tags: [pauseImage] });
      return pauseImage;
    });
  }

  invalidate(): void {
    this.world.journal.enter("pauseImages", "invalidate", []);
  }

  isPinned(names: readonly string[]): boolean {
    return names.includes(pauseImage);
  }
}

/** Learns from an error whose message holds `oom_score_adj`. */
export class FakeOomScores implements OomScores {
  #floor = -1000;

  clamp(wanted: number): number {
    return Math.max(wanted, this.#floor);
  }

  learnFromFailure(score: number, error: unknown): boolean {
    if (score >= 0 || this.#floor === 0 || !messageOf(error).includes("oom_score_adj")) return false;
    this.#floor = 0;
    return true;
  }
}

type Bound<Handler> = Handler extends (
  request: infer Request,
  services: Services,
  ...rest: infer Rest
) => infer Result
  ? (request: Request, ...rest: Rest) => Extract<Result, Promise<unknown>>
  : never;

/** The handlers of the RPC table, with the services of one shim. They take validated requests; lists return all items. */
export type BoundHandlers = { readonly [Name in ValidatedRpc]: Bound<(typeof rpcs)[Name]["handler"]> };

export function bindHandlers(services: Services): BoundHandlers {
  type AnyHandler = (request: unknown, services: Services, ...rest: readonly unknown[]) => unknown;
  const bound = Object.entries(rpcs).map(([name, row]) => {
    const handler = row.handler as AnyHandler;
    return [
      name,
      (request: unknown, ...rest: unknown[]) => {
        const result = handler(request, services, ...rest) as Promise<unknown> | AsyncIterable<unknown>;
        return Symbol.asyncIterator in result ? collect(result) : result;
      },
    ];
  });
  return Object.fromEntries(bound) as BoundHandlers;
}

/** A shim on fakes; disposing it stops the sync, and removes the files when it made them itself. */
export class TestShim implements AsyncDisposable {
  readonly rpcs: BoundHandlers;

  private constructor(
    readonly world: World,
    readonly services: Services,
    readonly sync: StateSync,
    readonly log: ReturnType<typeof recordingLog>,
    private readonly lifetime: Lifetime,
  ) {
    this.rpcs = bindHandlers(services);
  }

  /** Builds the services and waits until the read model is live. `earlier` is the world of a shim that has ended. */
  static async start(
    options: {
      readonly earlier?: World;
      readonly prepare?: (world: World) => void;
      /** Of the engine, as far as they are not the usual ones. */
      readonly facts?: Partial<NodeFacts>;
      readonly settings?: Partial<Services["settings"]>;
      readonly pinnedImages?: readonly string[];
      readonly readOnly?: boolean;
      readonly imageVolumeLimits?: Partial<ImageVolumeLimits>;
      /** Of the logs of containers that this shim creates: links unless given. */
      readonly logFormat?: "cri" | "docker";
      readonly adoptedLogs?: "keep" | "convert";
      readonly resyncIntervalMs?: number;
      /** Real files and a real network in place of those of the world. */
      readonly stores?: Pick<Stores, "records" | "logRecords">;
      readonly network?: NetworkPlugin;
    } = {},
  ): Promise<TestShim> {
    const log = recordingLog();
    const lifetime = new Lifetime(log);
    const world = options.earlier ?? (await newWorld(lifetime));
    world.engine.facts = { ...world.engine.facts, ...options.facts };
    options.prepare?.(world);
    const { engine, directory } = world;
    const host = (): FakeHost => world.host;
    const records = options.stores?.records ?? {
      pods: await openPodRecords(world),
      containers: await ContainerRecords.open(`${directory}/containers`, log),
      checkpoints: world.checkpoints,
    };
    const logs = new ContainerLogWriters({
      engine,
      host,
      log,
      format: options.logFormat ?? "docker",
      adopted: options.adoptedLogs ?? "keep",
      records:
        options.stores?.logRecords ??
        (await LogRecords.open(`${directory}/logs`, log, `${directory}/quarantine`)),
    });
    lifetime.onClose("container logs", () => logs.stop());
    const stats = new EngineStats({ engine, log });
    const { services, sync } = buildShim(
      {
        ...initialState(records),
        engine,
        records,
        network: options.network ?? world.network,
        host,
        oomScores: new FakeOomScores(),
        logs,
        stats: { source: () => stats, layers: { usageOf: (id) => world.layers.get(id) } },
        streaming: { server: world.streaming, podDialer: () => world.podDialer },
        pauseImages: new FakePauseImages(world),
        ociRuntimeServer: world.ociRuntimeServer,
        mappedRoots: undefined,
        engineConnected: () => Promise.resolve(),
      },
      {
        cleanUpTimeoutMs: 5_000,
        pullProgressDeadlineMs: 5_000,
        allPodAddresses: true,
        defaultUlimits: [],
        allowedAnnotations: [],
        oneContainerdShimPerPod: true,
        absentMountSourcesToReject: new Set(),
        ...options.settings,
        pinnedImages: options.pinnedImages ?? [],
        readOnly: options.readOnly ?? false,
        stateDirectoryId: directory.replaceAll("/", "-"),
        imageVolumeLimits: {
          provideMs: 5_000,
          keepMs: 5_000,
          cleanUpMs: 5_000,
          ...options.imageVolumeLimits,
        },
        sync: {
          ...defaultStateSyncOptions,
          reconnectMs: { first: 1, longest: 5 },
          resyncIntervalMs: options.resyncIntervalMs ?? defaultStateSyncOptions.resyncIntervalMs,
        },
      },
      log,
      lifetime,
    );
    sync.start();
    lifetime.onClose("sync", () => sync.stop());
    await until("the read model is live", () => services.state.link.state.phase === "live");
    return new TestShim(world, services, sync, log, lifetime);
  }

  get engine(): FakeEngine {
    return this.world.engine;
  }

  /** Ends this shim and begins another one on the same engine and files. */
  async restart(): Promise<TestShim> {
    await this.sync.stop();
    return TestShim.start({ earlier: this.world });
  }

  /** The context of one call; `abort` is the caller leaving. */
  call(rpc = "Test"): Call & { readonly abort: (reason: unknown) => void } {
    const controller = new AbortController();
    return { rpc, signal: controller.signal, log: this.log, abort: (reason) => controller.abort(reason) };
  }

  async runSandbox(
    request: ValidRunPodSandbox = runRequest(),
    call: Call = this.call("RunPodSandbox"),
  ): Promise<string> {
    const { pod_sandbox_id: id } = await this.rpcs.RunPodSandbox(request, call);
    assert.ok(id);
    return id;
  }

  stopSandbox(id: string): Promise<unknown> {
    return this.rpcs.StopPodSandbox({ pod_sandbox_id: id }, this.call("StopPodSandbox"));
  }

  removeSandbox(id: string): Promise<unknown> {
    return this.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, this.call("RemovePodSandbox"));
  }

  async createContainer(
    sandboxId: string,
    changes: Partial<ValidContainerConfig> = {},
    call: Call = this.call("CreateContainer"),
  ): Promise<string> {
    const { container_id: id } = await this.rpcs.CreateContainer(createRequest(sandboxId, changes), call);
    assert.ok(id);
    return id;
  }

  async startContainer(id: string): Promise<void> {
    await this.rpcs.StartContainer({ container_id: id }, this.call("StartContainer"));
  }

  stopContainer(id: string, timeout = "0"): Promise<unknown> {
    return this.rpcs.StopContainer({ container_id: id, timeout }, this.call("StopContainer"));
  }

  removeContainer(id: string): Promise<unknown> {
    return this.rpcs.RemoveContainer({ container_id: id }, this.call("RemoveContainer"));
  }

  /** In a new pod unless a sandbox is given. */
  async runContainer(
    sandboxId?: string,
    name = "main",
    changes: Partial<ContainerConfig> = {},
  ): Promise<string> {
    const metadata = { name, attempt: 0 };
    const config = { ...changes, metadata, log_path: `${name}/0.log` } as Partial<ValidContainerConfig>;
    const id = await this.createContainer(sandboxId ?? (await this.runSandbox()), config);
    await this.startContainer(id);
    return id;
  }

  /** A running container, in which `process` is what exec and attach find. */
  async runProcess(process: FakeProcess, container: Partial<ContainerConfig> = {}): Promise<string> {
    const id = await this.runContainer(undefined, "main", container);
    this.engine.execs.script = () => process;
    return id;
  }

  /** What ListPodSandbox shows: id → READY (0) or NOTREADY (1). */
  async listedSandboxes(): Promise<Readonly<Record<string, number>>> {
    const items = await this.rpcs.ListPodSandbox({ filter: null }, this.call("ListPodSandbox"));
    return Object.fromEntries(items.map(({ id = "", state = 0 }) => [id, state]));
  }

  /** What ListContainers shows: id → state. */
  async listedContainers(): Promise<Readonly<Record<string, number>>> {
    const containers = await this.rpcs.ListContainers({ filter: null }, this.call("ListContainers"));
    return Object.fromEntries(containers.map(({ id = "", state = 0 }) => [id, state]));
  }

  /** Of a sandbox that the engine does not have. */
  addCheckpoint(id: string, data: PodSandboxCheckpoint["data"] = {}): void {
    this.world.checkpoints.stored.set(id, { version: "v1", namespace: "ns", name: "old", data });
  }

  /** As a StopPodSandbox that has only begun leaves it. */
  async recordStopped(sandboxId: string): Promise<void> {
    await this.services.records.pods.update(sandboxId, (record) => ({ ...record, phase: "stopped" }));
    this.services.state.model.recordChanged(sandboxId);
  }

  /** Holds requests of one kind to the engine until `release()`. */
  holdRequests(verb: string): { readonly begun: () => Promise<void>; readonly release: () => void } {
    let isHeld = true;
    const requests = (): number => this.world.journal.names(`engine.${verb}`).length;
    const before = requests();
    this.engine.hangs = (request) => request === verb && isHeld;
    return {
      begun: () => until(`${verb} is in flight`, () => requests() > before),
      release: () => {
        isHeld = false;
        this.engine.up();
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.lifetime.close();
    // A step that throws or hangs is only logged.
    const failed = this.log.lines.filter(({ message }) => message === "cannot close");
    if (failed.length > 0) throw new Error(`steps of closing that hang or fail: ${JSON.stringify(failed)}`);
  }
}

/** The shim of the test that runs: starts before each test of the file, and ends after it. */
export function shimOfEachTest(): TestShim {
  let present: TestShim | undefined;
  beforeEach(async () => {
    present = await TestShim.start();
  });
  afterEach(() => present?.[Symbol.asyncDispose]());
  return new Proxy({} as TestShim, { get: (_, key): unknown => Reflect.get(present ?? {}, key) });
}

async function newWorld(lifetime: Lifetime): Promise<World> {
  const journal = new Journal();
  const directory = await temporaryDirectory();
  lifetime.onClose("files", async () => {
    await directory[Symbol.asyncDispose]();
  });
  const engine = new FakeEngine(journal);
  const host = new FakeHost(journal);
  host.onKill = (pid) => engine.execs.kill(pid);
  engine.images.add({ tags: [pauseImage] });
  engine.images.add({
    tags: ["busybox:latest"],
    digests: [`busybox@sha256:${"b".repeat(64)}`],
    files: { "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\nwheel:x:10:root\n" },
  });
  return {
    journal,
    engine,
    host,
    directory: directory.path,
    network: new FakeNetwork(journal),
    ociRuntimeServer: new FakeOciRuntimeServer(),
    layers: new Map(),
    checkpoints: new MemoryCheckpoints(journal),
    podDialer: new FakePodDialer(),
    streaming: new FakeStreamingServer(),
  };
}

/** The real records on real files, without the flushes: noted as `records.write` and `records.remove`. */
function openPodRecords({ journal, directory }: World): Promise<PodRecords> {
  return PodRecords.open(`${directory}/pods`, recordingLog(), {
    writeFile: (path, content) => {
      const step = journal.enter("records", "write", [path, content]);
      writeFileSync(path, content);
      journal.leave(step);
    },
    removeFile: (path) => {
      const step = journal.enter("records", "remove", [path]);
      const present = removeFileSync(path);
      journal.leave(step);
      return present;
    },
  });
}
