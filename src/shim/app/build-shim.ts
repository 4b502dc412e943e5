/** Builds the whole program from its parts, starts it, and stops it in reverse order. */
import { CoalescedWork } from "../lib/sync/coalesced-work.js";
import { ShimError, isKind, messageOf } from "../lib/errors.js";
import { KeyedMutex } from "../lib/sync/keyed-mutex.js";
import { Lifetime } from "../lib/lifetime.js";
import type { Logger } from "../lib/log.js";
import { createEngine, engineEndpoint, type Environment } from "./engine.js";
import { removeOrphanedNetworks, isKnownEngine } from "../recovery/orphaned-networks.js";
import { openImageHelpers } from "./image-helpers.js";
import { createHostPaths } from "./host-paths.js";
import { createContainerLogs } from "./logs.js";
import { openMetrics } from "./metrics.js";
import { openNetwork } from "./network.js";
import { OpenFilesNotice } from "../limits/open-files.js";
import { createPauseImages } from "./pause.js";
import { createPodDialer } from "./pod-dialer.js";
import { serve } from "./server.js";
import { openStats } from "./stats.js";
import { openStores } from "./stores.js";
import { openStreaming } from "./streaming.js";
import type { Config } from "../config/resolve.js";
import { isSameEngine, type NodeFacts } from "../domain/node-facts.js";
import { formatEndpoint } from "../engine/http/endpoint.js";
import { chooseHost, RemoteHost } from "../host/choose-host.js";
import { EngineProcesses } from "../host/processes/engine-processes.js";
import { HostOomScores } from "../host/processes/oom-scores.js";
import { engineTakesAnnotations } from "../plan/oci-annotations.js";
import type { HostAccess } from "../ports/host.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import { ContainerEvents } from "../cri/events/get-container-events.js";
import { forgetContainer } from "../recovery/forget-container.js";
import { ImagePins } from "../images/image-pins.js";
import { AbandonedRequests } from "../recovery/abandoned-requests.js";
import { LimitReconciler } from "../limits/cgroup-limits.js";
import { repairAfterStart } from "../recovery/repair.js";
import { ResolvConfReconciler } from "../recovery/resolv-conf-reconciler.js";
import type { Services } from "../cri/services.js";
import { readConditions } from "../cri/runtime/status.js";
import { EngineLink } from "../state/engine-link.js";
import { ImageCache } from "../images/image-cache.js";
import { UnmanagedImages } from "../images/unmanaged-images.js";
import { ReadModel } from "../state/read-model.js";
import { StateSync } from "../state/state-sync.js";

/** Limit of each undo and clean-up step. */
const cleanUpTimeoutMs = 30_000;
/** How long calls and sessions that a stop has aborted may take to end. */
const abortedCallsMs = 4_000;

export interface Shim {
  /** As formatted for people: `unix:///var/run/dockershim.sock`. */
  readonly endpoint: string;
  readonly network: NetworkPlugin;
  readonly link: EngineLink;
  readonly pauseImageReference: string;
  /** How the URLs of exec, attach and port-forward begin: `http://127.0.0.1:41234`. */
  readonly streamingAddress: string;
  /** Where metrics are served, as an URL or path; empty for nowhere. */
  readonly metricsAddress: string;
  /** Resolves at the first time that the engine is live. */
  readonly firstLive: Promise<NodeFacts>;
  /** Resolves when the network plugin has done its work on the node, or has failed for the first time. */
  nodePrepared(): Promise<void>;
  /** Rejects with what makes going on impossible, such as an engine whose cgroup driver contradicts the flag. */
  readonly failed: Promise<never>;
  /**
   * Takes no new calls, waits for those in flight up to `timeoutMs`, and closes everything, within 9 s more. Containers
   * keep running. The answer names what hangs. Never throws.
   */
  stop(timeoutMs: number): Promise<readonly string[]>;
}

/** Serves as soon as it returns, with or without an engine. */
export async function startShim(config: Config, log: Logger, environment: Environment): Promise<Shim> {
  const lifetime = new Lifetime(log);
  try {
    return await open(config, log, environment, lifetime);
  } catch (error) {
    await lifetime.close();
    throw error;
  }
}

async function open(
  config: Config,
  log: Logger,
  environment: Environment,
  lifetime: Lifetime,
): Promise<Shim> {
  const stores = await openStores(config.stateDir, log, lifetime);
  const metrics = await openMetrics(config, log, lifetime);
  const endpoint = await engineEndpoint(config, environment);
  const engine = createEngine(endpoint, config, log, lifetime, metrics?.observer);
  const { network, leftovers } = await openNetwork(config, stores, engine, log, lifetime, metrics?.observer);
  const socketPath = endpoint.kind === "unix" ? endpoint.path : undefined;
  const oomScores = new HostOomScores(config.clampOomScores, log, { socketPath });
  const engineProcesses = new EngineProcesses({
    endpoint,
    runtimeCgroups: config.runtimeCgroups,
    clamp: (wanted) => oomScores.clamp(wanted),
    log,
  });
  lifetime.onClose("watch of the engine's processes", () => engineProcesses.stop());

  const link = new EngineLink();
  const model = new ReadModel((id) => stores.podRecords.get(id));
  stores.podRecords.onChange((id) => {
    model.recordChanged(id);
  });
  const images = new ImageCache(engine);
  const pauseImages = createPauseImages(config, engine, link, log);
  const unmanagedImages = new UnmanagedImages({ engine, now: () => performance.now(), log });
  const imagePins = new ImagePins({ pauseImages, unmanagedImages, patterns: config.pinnedImages });
  const forgetImages = (): void => {
    images.forget();
    pauseImages.invalidate();
  };

  // Before the CRI, so that no URL is without a port.
  const streaming = await openStreaming(config, log, lifetime);

  const hostPaths = createHostPaths(log, lifetime);
  let host: HostAccess = new RemoteHost();
  let hostFacts: NodeFacts | undefined;
  let nodePrepared = Promise.resolve();
  const { stats, layers, useHost, counts } = openStats({ engine, model, host: () => host, log }, lifetime);
  const logs = createContainerLogs(config, stores, engine, () => host, log, lifetime);
  const outcome = new FirstOutcome();
  const background = new AbortController();
  const abandonedRequests = new AbandonedRequests({ log, timeoutMs: cleanUpTimeoutMs });
  lifetime.onClose("requests without an answer", () => abandonedRequests.stop());
  const openFiles = new OpenFilesNotice({ host: () => host, defaultUlimits: config.defaultUlimits, log });
  const sync = new StateSync({
    engine,
    model,
    link,
    log,
    onConnect: async (facts, signal) => {
      refuseOtherCgroupDriver(config, facts);
      resolvConfs.engineConnected();
      warnOfUnknownAnnotations(config, facts, log);
      const chosen = await chooseHost(facts, formatEndpoint(endpoint), log, hostPaths);
      // It may have taken so long that the next connect has been made.
      signal.throwIfAborted();
      const isOther =
        hostFacts === undefined || !isSameEngine(hostFacts, facts) || chosen.local !== host.local;
      host = chosen;
      hostFacts = facts;
      // Else the rates and open files of statistics are as good as before: only the link broke.
      if (isOther) useHost(host);
      nodePrepared = network.engineFound({ local: host.local });
      openFiles.engineFound();
      if (host.local) {
        await oomScores.detect();
        signal.throwIfAborted();
        engineProcesses.start();
      }
      forgetImages();
      unmanagedImages.forget();
    },
    onConnectError: (error) => outcome.connectFailed(error),
    onLive: (facts) => {
      outcome.wentLive(facts);
      cleanUps.request(facts);
    },
    onImageEvent: forgetImages,
    onOtherContainer: () => {
      unmanagedImages.forget();
    },
    onChange: (id, snapshot) => {
      if (snapshot !== undefined) {
        abandonedRequests.observe(snapshot);
        openFiles.observe(snapshot);
      }
      limits.observe(id, snapshot);
      resolvConfs.observe(id, snapshot);
    },
    beforeChange: (id, snapshot) =>
      snapshot === undefined
        ? forgetContainer(id, { ...stores, model, host: () => host, logs, log })
        : logs.observe(snapshot),
  });
  const resolvConfs = new ResolvConfReconciler({ ...stores, host: () => host, log });
  lifetime.onClose("resolv.conf of sandboxes", () => resolvConfs.stop());
  const containerLocks = new KeyedMutex();
  const limits = new LimitReconciler({
    ...{ ...stores, host: () => host, model, sync, containerLocks, log, timeoutMs: cleanUpTimeoutMs },
  });
  lifetime.onClose("limits of containers", () => limits.stop());
  const imageHelpers = openImageHelpers(
    { ...{ engine, model, host: () => host, log, cleanUpTimeoutMs }, stateDir: config.stateDir },
    lifetime,
  );
  const { imageUsers } = imageHelpers;
  const settings = {
    cleanUpTimeoutMs,
    pullProgressDeadlineMs: config.imagePullProgressDeadlineMs,
    absentMountSourcesToReject: new Set(config.absentMountSourcesToReject),
    allPodAddresses: config.ipv6DualStack,
    defaultUlimits: config.defaultUlimits,
    allowedAnnotations: config.allowedAnnotations,
  };
  const services: Services = {
    ...{ engine, link, model, sync, ...stores, network, oomScores, images, pauseImages },
    imagePins,
    ...imageHelpers,
    ...{ stats, layers, logs, abandonedRequests, limits, log },
    host: () => host,
    podDialer: createPodDialer({ engine, link, host: () => host, log }, lifetime),
    streaming,
    events: new ContainerEvents({
      ...{ model, ...stores, network, images, imageUsers, log, settings },
      host: () => host,
    }),
    sandboxLocks: new KeyedMutex(),
    containerLocks,
    settings,
  };

  const inBackground = async (what: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      if (!background.signal.aborted) log.error({ err: messageOf(error) }, `${what} failed`);
    }
  };
  /** After a start and after each return of the engine: what died in between cleans up nothing itself. */
  const cleanUps = new CoalescedWork<NodeFacts>(async ({ engineId }) => {
    const { signal } = background;
    await inBackground("repair after start", () => repairAfterStart(services, signal));
    await inBackground("clean-up of dead pods' networks", async () => {
      if (leftovers === undefined || !host.local || signal.aborted) return;
      if (await isKnownEngine(config.stateDir, engineId)) {
        await removeOrphanedNetworks(leftovers, config.stateDir, engine, log, signal);
      } else {
        log.warn(
          { engineId, stateDir: config.stateDir },
          "another engine than before: what is left of pod networks stays, see dockershim doctor network",
        );
      }
    });
  });

  const metricsServer = await metrics?.serve(
    {
      ...{ link, model, sync, network, logs, streaming, statsCounts: counts },
      corruptCheckpoints: stores.corruptCheckpoints,
    },
    (signal) => readConditions(services, signal),
  );
  const server = await serve(config, services, log, environment, metrics?.observer);
  sync.start();
  lifetime.onClose("sync", async () => {
    background.abort(new ShimError("cancelled", "the shim is stopping"));
    await sync.stop();
    await cleanUps.settled();
  });
  return {
    ...{ endpoint: server.endpoint, network, link, pauseImageReference: config.pauseImage },
    ...{ streamingAddress: streaming.urlBase, metricsAddress: metricsServer?.endpoint ?? "" },
    ...{ firstLive: outcome.live, failed: outcome.failed, nodePrepared: () => nodePrepared },
    stop: async (timeoutMs) => {
      await lifetime.first("calls and sessions", timeoutMs + abortedCallsMs, () =>
        Promise.all([server.drain(timeoutMs), streaming.stop(timeoutMs)]),
      );
      await lifetime.close();
      return lifetime.abandoned;
    },
  };
}

/** What became of the first attempt to reach the engine. */
class FirstOutcome {
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
    this.failed.catch(() => undefined); // Whoever cares races it.
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

/** Containers of a kubelet with another cgroup driver than the engine's would be in cgroups that it does not know. */
function refuseOtherCgroupDriver({ cgroupDriver }: Config, facts: NodeFacts): void {
  if (cgroupDriver === undefined || cgroupDriver === facts.cgroupDriver) return;
  throw new ShimError(
    "invalid",
    `--cgroup-driver=${cgroupDriver}: the Docker Engine uses the cgroup driver "${facts.cgroupDriver}"`,
  );
}

/** Not for each pod: those of an engine without the field would otherwise fail, or fill the log. */
function warnOfUnknownAnnotations({ allowedAnnotations }: Config, facts: NodeFacts, log: Logger): void {
  if (allowedAnnotations.length === 0 || engineTakesAnnotations(facts)) return;
  log.warn(
    { engineVersion: facts.engineVersion, allowedAnnotations },
    "--allowed-annotations has no effect: the engine takes annotations from Docker Engine 24 (API 1.43) on",
  );
}
