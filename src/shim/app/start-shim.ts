/** Opens the adapters, builds the program, serves it, and stops it in reverse order. */
import { Lifetime } from "../../lib/lifetime.js";
import { freedMemoryReturner } from "../../lib/linux/freed-memory.js";
import type { Logger } from "../../lib/log.js";
import type { Config } from "../config/resolve.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Reach } from "../../domain/reach.js";
import { notifySystemd, serveWatchdog } from "../native/notify-systemd.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import type { EndedCallSubscriber } from "../ports/ended-calls.js";
import type { Observer } from "../ports/observer.js";
import { bindRpcs } from "../cri/bind-rpcs.js";
import { readConditions } from "../cri/runtime/status.js";
import type { Services } from "../cri/services.js";
import { metricsPage } from "../cri/stats/metrics-page.js";
import { criApi } from "../grpc/codec/cri-api.js";
import { UnknownFields } from "../grpc/codec/unknown-fields.js";
import { startGrpcServer, type GrpcServer, type GrpcServerOptions } from "../grpc/server.js";
import { defaultImageVolumeLimits } from "../images/image-volumes.js";
import { CleanUps } from "../recovery/after-start.js";
import type { EngineLink } from "../state/engine-link.js";
import { openAdapters } from "./adapters.js";
import { buildShim, type ShimSettings } from "./build-shim.js";
import type { Environment } from "./open-engine.js";
import { listenOn } from "./listen-on.js";
import { openCadvisor } from "./open-cadvisor.js";
import { openHistory } from "./open-history.js";
import { openMetrics } from "./open-metrics.js";
import { openTraces } from "./open-traces.js";
import { pageSources } from "./page-sources.js";
import { stateDirectoryId } from "../state/state-directory.js";
import { readOnlyRpcs } from "./read-only.js";

/** Limit of each undo and clean-up step. */
const cleanUpTimeoutMs = 30_000;
/** How long calls and sessions that a stop has aborted may take to end. */
const abortedCallsMs = 4_000;

export interface Shim {
  /** For example `unix:///var/run/dockershim.sock`. */
  readonly endpoint: string;
  readonly network: NetworkPlugin;
  /** What of the engine's host is in reach, as far as it is proven by now. */
  readonly reach: () => Reach;
  readonly link: EngineLink;
  readonly pauseImageReference: string;
  /** Begin of the URLs of exec, attach and port-forward: `http://127.0.0.1:41234`. */
  readonly streamingAddress: string;
  /** URL or path of the metrics; empty when they are off. */
  readonly metricsAddress: string;
  /** For example `unix:///run/dockershim/cadvisor.sock`; empty when cAdvisor is not served. */
  readonly cadvisorSocket: string;
  /** Resolves at the first time that the engine is live. */
  readonly firstLive: Promise<NodeFacts>;
  /** Resolves when the network plugin has prepared the node, or has failed for the first time. */
  nodePrepared(): Promise<void>;
  /** Tells systemd that the service is ready, with a line for `systemctl status`. Never throws. */
  ready(status: string): Promise<void>;
  /**
   * Rejects with an error that ends the program, such as an engine whose cgroup driver contradicts the flag.
   */
  readonly failed: Promise<never>;
  /**
   * Takes no new calls, waits up to `timeoutMs` for those in flight, and closes everything within 9 s more.
   * Containers keep running. The result names the parts that hang. Never throws.
   */
  stop(timeoutMs: number): Promise<readonly string[]>;
}

export interface Process {
  readonly environment: Environment;
  /** Version of this program. */
  readonly version: string;
}

export interface Purpose {
  /** Whether it finds out in the background, by containers of its own, what statuses tell. Default: true. */
  readonly preparesStatuses?: boolean;
}

/** Serves as soon as it returns, with or without an engine. */
export async function startShim(
  config: Config,
  log: Logger,
  process: Process,
  purpose: Purpose = {},
): Promise<Shim> {
  const lifetime = new Lifetime(log);
  try {
    return await start(config, log, process, lifetime, purpose);
  } catch (error) {
    await lifetime.close();
    throw error;
  }
}

async function start(
  config: Config,
  log: Logger,
  { environment, version }: Process,
  lifetime: Lifetime,
  { preparesStatuses = true }: Purpose,
): Promise<Shim> {
  const metrics = await openMetrics(config, log, lifetime);
  const traces = await openTraces(config, { version, log }, lifetime);
  const adapters = await openAdapters(config, log, environment, lifetime, metrics?.observer);
  const { link, model, network, logs, streamingServer } = adapters;
  const { services, sync, firstConnection } = buildShim(adapters, settingsOf(config), log, lifetime);
  const { host, orphanedNetworks } = adapters;
  const users = preparesStatuses ? services.images.users : { prepare: () => undefined };
  const repaired = { ...services, images: { ...services.images, users } };
  const cleanUps = new CleanUps(repaired, { host, orphanedNetworks, stateDir: config.stateDir });
  if (!config.readOnly) {
    sync.subscribe({
      engineLive: (facts) => {
        cleanUps.request(facts);
        // Begins to find out: a kubelet's first Status is to have the answer.
        if (preparesStatuses) services.node.ociRuntime.state(facts);
      },
    });
  }
  // Twice a minute, when the program is awake anyway.
  sync.subscribe({ engineCompared: freedMemoryReturner() });
  /** Of the server that is begun last. */
  let calls: Pick<GrpcServer, "underWay"> = { underWay: () => [] };
  const metricsServer = await metrics?.serve(
    {
      link,
      model,
      sync,
      network,
      logs,
      streaming: streamingServer,
      statsCounts: () => adapters.statsCounts(),
      corruptCheckpoints: () => adapters.corruptCheckpoints(),
      callsUnderWay: () => calls.underWay(),
      spanCounts: () => traces?.counts,
    },
    {
      readConditions: (signal) => readConditions(services, signal),
      containerMetrics: (signal) => metricsPage(services, signal),
      page: pageSources(config, services, { version, sync, underWay: () => calls.underWay() }),
    },
  );
  const cadvisor = await openCadvisor(config, { ...services, version }, log, environment, metrics?.observer);
  lifetime.onClose("server for cAdvisor", () => cadvisor?.close() ?? Promise.resolve());
  /** Hear of the calls of the CRI that change something, and of exec probes. */
  const history = await openHistory(config, model, log, lifetime);
  const subscribers: readonly EndedCallSubscriber[] = [
    ...(metrics?.subscribers ?? []),
    ...[history, traces].filter((subscriber) => subscriber !== undefined),
  ];
  const tracing = { subscribers, traceIdOf: traces?.traceIdOf };
  const server = await serve(config, services, log, environment, tracing, metrics?.observer);
  calls = server;
  sync.start();
  const systemd = { environment, log, startVerb: adapters.startVerb };
  const watchdog = serveWatchdog(() => sync.isMoving, systemd);
  lifetime.onClose("sync", async () => {
    cleanUps.abort();
    await sync.stop();
    await cleanUps.settled();
  });
  return {
    endpoint: server.endpoint,
    network,
    reach: () => host().reach,
    link,
    pauseImageReference: config.pauseImage,
    streamingAddress: streamingServer.urlBase,
    metricsAddress: metricsServer?.endpoint ?? "",
    cadvisorSocket: cadvisor?.endpoint ?? "",
    firstLive: firstConnection.live,
    failed: firstConnection.failed,
    nodePrepared: () => adapters.nodePrepared(),
    ready: (status) => notifySystemd(["READY=1", `STATUS=${status}`], systemd),
    stop: async (timeoutMs) => {
      watchdog[Symbol.dispose]();
      const notified = notifySystemd(["STOPPING=1", "STATUS=draining"], systemd);
      await lifetime.first("calls and sessions", timeoutMs + abortedCallsMs, () =>
        Promise.all([notified, server.drain(timeoutMs), streamingServer.stop(timeoutMs)]),
      );
      await lifetime.close();
      return lifetime.abandoned;
    },
  };
}

function settingsOf(config: Config): ShimSettings {
  return {
    cleanUpTimeoutMs,
    pullProgressDeadlineMs: config.imagePullProgressDeadlineMs,
    absentMountSourcesToReject: new Set(config.absentMountSourcesToReject),
    allPodAddresses: config.ipv6DualStack,
    defaultUlimits: config.defaultUlimits,
    allowedAnnotations: config.allowedAnnotations,
    composeLabels: config.composeLabels,
    oneContainerdShimPerPod: config.oneContainerdShimPerPod,
    cgroupDriver: config.cgroupDriver,
    pinnedImages: config.pinnedImages,
    readOnly: config.readOnly,
    stateDirectoryId: stateDirectoryId(config.stateDir),
    imageVolumeLimits: { ...defaultImageVolumeLimits, cleanUpMs: cleanUpTimeoutMs },
  };
}

async function serve(
  { containerRuntimeEndpoint, readOnly }: Config,
  services: Services,
  log: Logger,
  environment: Environment,
  tracing: Pick<GrpcServerOptions, "subscribers" | "traceIdOf">,
  observer?: Observer,
): Promise<GrpcServer> {
  const api = criApi(new UnknownFields(log, observer));
  const rpcs = bindRpcs(services, api.encodeItem);
  return startGrpcServer({
    ...(await listenOn(containerRuntimeEndpoint, environment)),
    api,
    log,
    ...tracing,
    observe: observer === undefined ? undefined : (ended) => observer.rpcEnded(ended),
    rpcs: readOnly ? readOnlyRpcs(rpcs) : rpcs,
  });
}
