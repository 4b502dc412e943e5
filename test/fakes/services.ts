/** A complete set of services on fakes, with a live StateSync, as shim.ts builds it on the real adapters. */
import { rm, writeFile } from "node:fs/promises";
import type { Call } from "../../src/shim/lib/call.js";
import { KeyedMutex } from "../../src/shim/lib/sync/keyed-mutex.js";
import { messageOf } from "../../src/shim/lib/errors.js";
import type { OomScores, PauseImageSource, Services } from "../../src/shim/cri/services.js";
import { ContainerEvents } from "../../src/shim/cri/events/get-container-events.js";
import { imageRpcs, runtimeRpcs } from "../../src/shim/cri/table.js";
import { ContainerRecords } from "../../src/shim/state/container-records.js";
import { EngineLink } from "../../src/shim/state/engine-link.js";
import { ImageCache } from "../../src/shim/images/image-cache.js";
import { ImagePins } from "../../src/shim/images/image-pins.js";
import { ImageUserReader, ImageUsersCache } from "../../src/shim/images/image-user-reader.js";
import { ImageVolumeStore } from "../../src/shim/images/image-volume-store.js";
import { ImageVolumes, type ImageVolumeLimits } from "../../src/shim/images/image-volumes.js";
import { ResolvConfReconciler } from "../../src/shim/recovery/resolv-conf-reconciler.js";
import { ScratchContainers } from "../../src/shim/images/scratch-containers.js";
import { forgetContainer } from "../../src/shim/recovery/forget-container.js";
import { AbandonedRequests } from "../../src/shim/recovery/abandoned-requests.js";
import { LimitReconciler } from "../../src/shim/limits/cgroup-limits.js";
import { PodRecords } from "../../src/shim/state/pod-records.js";
import { UnmanagedImages } from "../../src/shim/images/unmanaged-images.js";
import { ReadModel } from "../../src/shim/state/read-model.js";
import { defaultStateSyncOptions, StateSync } from "../../src/shim/state/state-sync.js";
import type { LayerUsage } from "../../src/shim/ports/stats.js";
import { EngineStats } from "../../src/shim/stats/engine-stats.js";
import { temporaryDirectory } from "../unit/lib/temporary-directory.js";
import { ContainerLogWriters } from "../../src/shim/logs/container-log-writers.js";
import { LogRecords } from "../../src/shim/logs/log-record.js";
import { FakeEngine } from "./fake-engine.js";
import { FakeHost } from "./fake-host.js";
import { FakeNetwork } from "./fake-network.js";
import { FakePodDialer } from "./fake-pod-dialer.js";
import { FakeStreamingServer } from "./fake-streaming.js";
import { Journal } from "./journal.js";
import { MemoryCheckpoints } from "./memory-checkpoints.js";
import { recordingLog } from "./recording-log.js";
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

/** A shim on fakes; disposing it stops the sync, and removes the files when it made them itself. */
export class TestShim implements AsyncDisposable {
  readonly runtime: ReturnType<typeof runtimeRpcs>;
  readonly image: ReturnType<typeof imageRpcs>;

  private constructor(
    readonly world: World,
    readonly services: Services,
    readonly sync: StateSync,
    readonly log: ReturnType<typeof recordingLog>,
    private readonly cleanUp: () => Promise<void>,
  ) {
    this.runtime = runtimeRpcs(services);
    this.image = imageRpcs(services);
  }

  /**
   * Builds the services and waits until the read model is live. `earlier` is the world of a shim that has
   * ended.
   */
  static async start(
    options: {
      readonly earlier?: World;
      readonly prepare?: (world: World) => void;
      readonly settings?: Partial<Services["settings"]>;
      readonly pinnedImages?: readonly string[];
      readonly imageVolumeLimits?: Partial<ImageVolumeLimits>;
      /** Of the logs of containers that this shim creates: links unless given. */
      readonly logFormat?: "cri" | "docker";
      readonly adoptedLogs?: "keep" | "convert";
    } = {},
  ): Promise<TestShim> {
    const own = options.earlier === undefined ? await newWorld() : undefined;
    const world = options.earlier ?? own;
    if (world === undefined) throw new Error("no world");
    options.prepare?.(world);
    const log = recordingLog();
    const link = new EngineLink();
    const podRecords = await openPodRecords(world);
    const model = new ReadModel((id) => podRecords.get(id));
    const images = new ImageCache(world.engine);
    const unmanagedImages = new UnmanagedImages({ engine: world.engine, now: () => 0, log });
    const pauseImages = new FakePauseImages(world);
    const logs = new ContainerLogWriters({
      ...{
        engine: world.engine,
        host: () => world.host,
        log,
        format: options.logFormat ?? "docker",
        adopted: options.adoptedLogs ?? "keep",
      },
      records: await LogRecords.open(`${world.directory}/logs`, log, `${world.directory}/quarantine`),
    });
    const abandonedRequests = new AbandonedRequests({ log, timeoutMs: 5_000 });
    const containerRecords = await ContainerRecords.open(`${world.directory}/containers`, log);
    const sync = new StateSync(
      {
        ...{ engine: world.engine, model, link, log },
        onConnect: () => {
          resolvConfs.engineConnected();
          return Promise.resolve();
        },
        onLive: () => undefined,
        onImageEvent: () => {
          images.forget();
        },
        onOtherContainer: () => {
          unmanagedImages.forget();
        },
        onChange: (id, snapshot) => {
          if (snapshot !== undefined) abandonedRequests.observe(snapshot);
          limits.observe(id, snapshot);
          resolvConfs.observe(id, snapshot);
        },
        beforeChange: (id, snapshot) =>
          snapshot === undefined
            ? forgetContainer(id, { containerRecords, model, host: () => world.host, logs, log })
            : logs.observe(snapshot),
      },
      { ...defaultStateSyncOptions, reconnectMs: { first: 1, longest: 5 } },
    );
    const settings: Services["settings"] = {
      ...{ cleanUpTimeoutMs: 5_000, pullProgressDeadlineMs: 5_000, allPodAddresses: true },
      ...{ defaultUlimits: [], allowedAnnotations: [] },
      absentMountSourcesToReject: new Set(),
      ...options.settings,
    };
    const resolvConfs = new ResolvConfReconciler({ podRecords, host: () => world.host, log });
    const containerLocks = new KeyedMutex();
    const limits = new LimitReconciler({
      ...{ host: () => world.host, model, sync, containerRecords, containerLocks, log },
      timeoutMs: settings.cleanUpTimeoutMs,
    });
    podRecords.onChange((id) => {
      model.recordChanged(id);
    });
    const { network } = world;
    const place = world.directory.replaceAll("/", "-");
    const { engine } = world;
    const host = () => world.host;
    const imageLocks = new KeyedMutex();
    const scratch = new ScratchContainers({ engine, log, timeoutMs: 5_000, place });
    const imageUsers = new ImageUserReader({
      ...{ engine, scratch, cache: new ImageUsersCache(), log, timeoutMs: 5_000 },
    });
    const imageVolumes = new ImageVolumes({
      ...{ engine, scratch, model, imageLocks, log },
      store: new ImageVolumeStore({ engine, host, scratch, log, cleanUpTimeoutMs: 5_000, place }),
      limits: { provideMs: 5_000, keepMs: 5_000, cleanUpMs: 5_000, ...options.imageVolumeLimits },
    });
    model.onChange(({ before, after }) => {
      if (before !== undefined && after === undefined) imageVolumes.containerGone(before.labels);
    });
    const stats = new EngineStats({ engine: world.engine, log });
    const services: Services = {
      ...{ engine: world.engine, link, model, sync, podRecords, containerRecords, images, imageUsers },
      ...{ logs, abandonedRequests, limits, log, scratch, imageVolumes, imageLocks },
      events: new ContainerEvents({
        ...{ model, podRecords, containerRecords, network, images, imageUsers, log, settings },
        host: () => world.host,
      }),
      checkpoints: world.checkpoints,
      network,
      host: () => world.host,
      podDialer: () => world.podDialer,
      streaming: world.streaming,
      stats: () => stats,
      layers: { usageOf: (id) => world.layers.get(id) },
      pauseImages,
      imagePins: new ImagePins({ pauseImages, unmanagedImages, patterns: options.pinnedImages ?? [] }),
      oomScores: new FakeOomScores(),
      sandboxLocks: new KeyedMutex(),
      containerLocks,
      settings,
    };
    sync.start();
    await until("the read model is live", () => link.state.phase === "live");
    const removeFiles = own?.[Symbol.asyncDispose].bind(own) ?? (() => Promise.resolve());
    return new TestShim(world, services, sync, log, async () => {
      await imageVolumes.stop();
      await abandonedRequests.stop();
      await limits.stop();
      await resolvConfs.stop();
      await sync.stop();
      await logs.stop();
      await removeFiles();
    });
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
    return {
      rpc,
      signal: controller.signal,
      log: this.log,
      abort: (reason) => {
        controller.abort(reason);
      },
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.cleanUp();
  }
}

async function newWorld(): Promise<World & AsyncDisposable> {
  const journal = new Journal();
  const directory = await temporaryDirectory();
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
    ...{ journal, engine, host, directory: directory.path },
    network: new FakeNetwork(journal),
    layers: new Map(),
    checkpoints: new MemoryCheckpoints(journal),
    podDialer: new FakePodDialer(),
    streaming: new FakeStreamingServer(),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

/** The real records on real files, without the flushes: noted as `records.write` and `records.remove`. */
function openPodRecords({ journal, directory }: World): Promise<PodRecords> {
  return PodRecords.open(`${directory}/pods`, recordingLog(), {
    writeFile: async (path, content) => {
      const step = journal.enter("records", "write", [path, content]);
      await writeFile(path, content);
      journal.leave(step);
    },
    removeFile: async (path) => {
      const step = journal.enter("records", "remove", [path]);
      const present = await rm(path).then(
        () => true,
        () => false,
      );
      journal.leave(step);
      return present;
    },
  });
}
