/** Builds the program from its adapters: read model, services of the RPCs, background tasks. */
import { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import { OpenFilesNotice } from "../limits/open-files-notice.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { ContainerLogs } from "../ports/container-logs.js";
import type { Engine } from "../ports/engine.js";
import type { HostSource, OomScores } from "../ports/host.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import type { MappedRoots } from "../oci-runtime/mapped-roots.js";
import type { OciRuntimeServer } from "../oci-runtime/oci-runtime-server.js";
import { ContainerEvents } from "../cri/events/get-container-events.js";
import {
  requireCgroupDriver,
  warnOfIgnoredAnnotations,
  warnOfMissingCgroups,
} from "../cri/runtime/engine-checks.js";
import type { Services, ServiceSettings, Stats, Streaming } from "../cri/services.js";
import { ImageDiskUsage } from "../images/image-disk-usage.js";
import { ImageNames } from "../images/image-names.js";
import { ImagePins } from "../images/image-pins.js";
import { AbandonedRequests } from "../recovery/abandoned-requests.js";
import { LimitReconciler } from "../limits/cgroup-limits.js";
import { ResolvConfReconciler } from "../recovery/resolv-conf-reconciler.js";
import { ImageCache } from "../images/image-cache.js";
import { UnmanagedImages } from "../images/unmanaged-images.js";
import { EngineLiveness } from "../state/engine-liveness.js";
import { StateSync, type StateSyncOptions } from "../state/state-sync.js";
import { ImageUserReader, ImageUsersCache } from "../images/image-user-reader.js";
import { ImageVolumeStore } from "../images/image-volume-store.js";
import { ImageVolumes, type ImageVolumeLimits } from "../images/image-volumes.js";
import type { Images, PauseImageSource } from "../images/images.js";
import { PullRecords } from "../images/pull-records.js";
import { ScratchContainers } from "../images/scratch-containers.js";
import { forgetContainer } from "../recovery/forget-container.js";
import type { EngineState } from "../state/engine-state.js";
import { createOciRuntime } from "./open-oci-runtime.js";
import type { Records } from "../state/records.js";
import { isKind, type ShimError } from "../../lib/errors.js";

/** The adapters of the program. */
export interface Adapters extends HostSource, Pick<EngineState, "link" | "model"> {
  readonly engine: Engine;
  readonly records: Records;
  readonly network: NetworkPlugin;
  readonly oomScores: OomScores;
  readonly logs: ContainerLogs;
  readonly stats: Stats;
  readonly streaming: Streaming;
  readonly pauseImages: PauseImageSource;
  /** Undefined for a server that only reads. */
  readonly ociRuntimeServer: Pick<OciRuntimeServer, "listen" | "try"> | undefined;
  /** Of containers in user namespaces; undefined as above. */
  readonly mappedRoots: Pick<MappedRoots, "adopt" | "observe"> | undefined;
  /** Called at each connect, before the containers are read. Afterwards `host` is the engine's host. */
  engineConnected(facts: NodeFacts, signal: AbortSignal): Promise<void>;
}

export interface ShimSettings extends ServiceSettings {
  /** An engine with another cgroup driver is refused. */
  readonly cgroupDriver?: NodeFacts["cgroupDriver"] | undefined;
  /** Patterns of `--pinned-images`. */
  readonly pinnedImages: readonly string[];
  /** Identifies the state directory in labels of containers and volumes. */
  readonly stateDirectoryId: string;
  readonly imageVolumeLimits: ImageVolumeLimits;
  /** Whether limits of containers are left as they are. */
  readonly readOnly: boolean;
  readonly sync?: StateSyncOptions | undefined;
}

export interface BuiltShim {
  readonly services: Services;
  /** Not started yet. */
  readonly sync: StateSync;
  readonly firstConnection: FirstConnection;
}

/** Background tasks end with `lifetime`. */
export function buildShim(
  adapters: Adapters,
  settings: ShimSettings,
  log: Logger,
  lifetime: Lifetime,
): BuiltShim {
  const { engine, link, model, records, network, host, oomScores, logs } = adapters;
  const { cleanUpTimeoutMs } = settings;
  const firstConnection = new FirstConnection();
  const unmanagedImages = new UnmanagedImages({ engine, now: () => performance.now(), log });
  const abandonedRequests = new AbandonedRequests({ log, timeoutMs: cleanUpTimeoutMs });
  lifetime.onClose("requests without an answer", () => abandonedRequests.stop());
  const openFiles = new OpenFilesNotice({ host, defaultUlimits: settings.defaultUlimits, log });
  const imageCache = new ImageCache({
    engine,
    isLive: () => link.state.phase === "live",
    now: () => performance.now(),
  });
  const imageNames = new ImageNames(imageCache);
  lifetime.onClose("names of images", () => imageNames.stop());
  const forgetImages = (): void => {
    imageCache.forget();
    adapters.pauseImages.invalidate();
  };

  const sync = new StateSync({ engine, model, link, log }, settings.sync);
  const state: EngineState = { link, model, sync };
  const resolvConfs = new ResolvConfReconciler({ records, node: { host }, log });
  lifetime.onClose("resolv.conf of sandboxes", () => resolvConfs.stop());
  const locks = { sandboxes: new KeyedMutex(), containers: new KeyedMutex() };
  const limits = new LimitReconciler({
    state,
    records,
    node: { host },
    locks,
    log,
    readOnly: settings.readOnly,
    timeoutMs: cleanUpTimeoutMs,
  });
  lifetime.onClose("limits of containers", () => limits.stop());

  sync.subscribe({
    engineConnected: async (facts, signal) => {
      requireCgroupDriver(settings.cgroupDriver, facts);
      resolvConfs.engineConnected();
      limits.engineConnected(facts);
      warnOfIgnoredAnnotations(settings.allowedAnnotations, facts, log);
      warnOfMissingCgroups(facts, log);
      await adapters.engineConnected(facts, signal);
      openFiles.engineFound();
      unmanagedImages.forget();
    },
    connectFailed: (error) => firstConnection.connectFailed(error),
    engineLive: (facts) => {
      // Here and not at the connect: what was read before the subscription may have changed before it.
      forgetImages();
      firstConnection.wentLive(facts);
      void adapters.mappedRoots?.adopt((id) => model.snapshot(id)?.state.running === true);
      limits.engineCompared();
    },
    engineCompared: () => {
      limits.engineCompared();
    },
    imagesChanged: forgetImages,
    otherContainersChanged: () => {
      unmanagedImages.forget();
    },
    beforeChange: (id, snapshot) =>
      snapshot === undefined
        ? forgetContainer(id, { state, records, node: { host }, logs, log })
        : logs.observe(snapshot),
    inspected: (id, snapshot) => {
      if (snapshot !== undefined) {
        abandonedRequests.observe(snapshot);
        openFiles.observe(snapshot);
        imageNames.observe(snapshot);
      }
      limits.observe(id, snapshot);
      adapters.mappedRoots?.observe(id, snapshot);
      resolvConfs.observe(id, snapshot);
    },
  });

  const images = buildImages(
    adapters,
    { cache: imageCache, names: imageNames },
    unmanagedImages,
    settings,
    log,
    lifetime,
  );
  const ociRuntime = createOciRuntime(adapters.ociRuntimeServer, { engine, images, log });
  const withoutEvents: Omit<Services, "events"> = {
    engine,
    engineLiveness: new EngineLiveness(engine),
    state,
    records,
    images,
    network,
    node: { host, oomScores, limits, ociRuntime },
    logs,
    stats: adapters.stats,
    streaming: adapters.streaming,
    locks,
    abandonedRequests,
    settings,
    log,
  };
  return {
    services: { ...withoutEvents, events: new ContainerEvents(withoutEvents) },
    sync,
    firstConnection,
  };
}

function buildImages(
  { engine, model, host, pauseImages }: Adapters,
  { cache, names }: Pick<Images, "cache" | "names">,
  unmanagedImages: UnmanagedImages,
  { cleanUpTimeoutMs, stateDirectoryId, pinnedImages, imageVolumeLimits }: ShimSettings,
  log: Logger,
  lifetime: Lifetime,
): Images {
  const scratch = new ScratchContainers({ engine, log, timeoutMs: cleanUpTimeoutMs, stateDirectoryId });
  const users = new ImageUserReader({
    engine,
    scratch,
    cache: new ImageUsersCache(),
    log,
    timeoutMs: cleanUpTimeoutMs,
  });
  const locks = new KeyedMutex();
  const volumes = new ImageVolumes({
    engine,
    scratch,
    model,
    imageLocks: locks,
    log,
    store: new ImageVolumeStore({ engine, host, scratch, log, cleanUpTimeoutMs, stateDirectoryId }),
    limits: imageVolumeLimits,
  });
  model.onChange(({ before, after }) => {
    if (before !== undefined && after === undefined) volumes.containerGone(before.labels);
  });
  lifetime.onClose("reading and mounting of images", async () => {
    await Promise.all([volumes.stop(), scratch.stop()]);
    await users.idle();
  });
  return {
    cache,
    names,
    pins: new ImagePins({ pauseImages, unmanagedImages, patterns: pinnedImages }),
    users,
    volumes,
    scratch,
    pause: pauseImages,
    diskUsage: new ImageDiskUsage({ engine, host }),
    locks,
    pulls: new SingleFlight<string>(),
    pullRecords: new PullRecords(),
  };
}

/** Whether the engine was reached for the first time, or can never be served. */
class FirstConnection {
  readonly live: Promise<NodeFacts>;
  readonly failed: Promise<never>;
  #resolve!: (facts: NodeFacts) => void;
  #reject!: (error: ShimError) => void;
  #everLive = false;

  constructor() {
    this.live = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.failed = new Promise((_, reject) => {
      this.#reject = reject;
    });
    this.failed.catch(() => undefined); // Also when no caller waits for it.
  }

  wentLive(facts: NodeFacts): void {
    this.#everLive = true;
    this.#resolve(facts);
  }

  /** An engine that can never be served is a reason not to start; one that was exchanged later may come back. */
  connectFailed(error: ShimError): "stop" | "retry" {
    if (this.#everLive || !isKind(error, "precondition", "invalid")) return "retry";
    this.#reject(error);
    return "stop";
  }
}
