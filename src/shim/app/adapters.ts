/** Opens the adapters that the configuration selects. */
import { arch } from "node:process";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import type { Config } from "../config/resolve.js";
import type { EngineEndpoint } from "../engine/http/endpoint.js";
import { RegistryCredentialStore } from "../registry/registry-credentials.js";
import { HostPaths } from "../host/host-paths/host-paths.js";
import { EngineProcesses } from "../host/processes/engine-processes.js";
import { HostOomScores } from "../host/processes/oom-scores.js";
import { ContainerLogWriters } from "../logs/container-log-writers.js";
import { PauseImages } from "../pause/pause-image.js";
import { HelperProcess } from "../native/helper-process.js";
import { programPath } from "../native/programs.js";
import type { StartProgram } from "../native/start-program.js";
import { MappedRoots } from "../oci-runtime/mapped-roots.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { Observer } from "../ports/observer.js";
import { pullForPause } from "../cri/image/pull-image.js";
import type { PauseImageSource } from "../images/images.js";
import type { NetworkCleanUp } from "../ports/network-plugin.js";
import type { EngineLink } from "../state/engine-link.js";
import { initialState } from "../state/engine-state.js";
import type { StatsCounts } from "../stats/stats-sources.js";
import { startStreamingServer, type RunningStreamingServer } from "../streaming/streaming-server.js";
import { TlsFiles } from "../streaming/tls-files.js";
import type { Adapters } from "./build-shim.js";
import { EngineConnection } from "./engine-connection.js";
import { connectAhead, createEngine, engineEndpoint, type Environment } from "./open-engine.js";
import { openNetwork } from "./open-network.js";
import { openOciRuntimeServer } from "./open-oci-runtime.js";
import { createPodDialer } from "./open-pod-dialer.js";
import { stateDirectoryId } from "../state/state-directory.js";
import { openStores } from "./open-stores.js";
import { openReadOnlyStores } from "./read-only.js";

/** A kubelet with dockershim read the node's registry credentials here first. */
const kubeletDirectory = "/var/lib/kubelet";

export interface OpenAdapters extends Adapters {
  readonly logs: ContainerLogWriters;
  readonly streamingServer: RunningStreamingServer;
  /** Performs a verb of the helper. */
  readonly startVerb: StartProgram;
  /** Undefined when the network plugin leaves no resources. */
  readonly orphanedNetworks: NetworkCleanUp | undefined;
  statsCounts(): StatsCounts;
  /** Count of checkpoints that could not be parsed so far. */
  corruptCheckpoints(): number;
  /** Resolves when the network plugin has prepared the node, or has failed for the first time. */
  nodePrepared(): Promise<void>;
}

/** Needs no engine. Rejects with an error that makes a start impossible, such as a port in use. */
export async function openAdapters(
  config: Config,
  log: Logger,
  environment: Environment,
  lifetime: Lifetime,
  observer?: Observer,
): Promise<OpenAdapters> {
  const stores = await (config.readOnly ? openReadOnlyStores : openStores)(config, log, lifetime);
  const endpoint = await engineEndpoint(config, environment);
  const engine = connectAhead(createEngine(endpoint, config, log, lifetime, observer), lifetime);
  const helper = openHelper(stores.programs, log, lifetime);
  const parts = { ...stores, engine, start: helper.start };
  const { network, orphanedNetworks } = await openNetwork(config, parts, log, lifetime, observer);
  const { oomScores, engineProcesses } = openNode(config, endpoint, log, lifetime);
  const streamingServer = await openStreaming(config, log, lifetime);
  const { link, model } = initialState(stores.records);
  const connection = new EngineConnection({
    engine,
    model,
    network,
    oomScores,
    engineProcesses,
    hostPaths: new HostPaths({ startVerb: helper.startVerb, log }),
    startVerb: helper.startVerb,
    mode: config.engineReach,
    directory: config.stateDir,
    readOnly: config.readOnly,
    log,
  });
  lifetime.onClose("engine's host and statistics", () => connection.stop());
  model.onChange(({ after }) => {
    connection.observe(after);
  });
  const host = (): HostAccess => connection.host;
  const directoryId = stateDirectoryId(config.stateDir);
  const roots = config.readOnly
    ? undefined
    : new MappedRoots({ stateDirectoryId: directoryId, startVerb: helper.startVerb, log });
  const logs = new ContainerLogWriters({
    engine,
    host,
    records: stores.logRecords,
    format: config.containerLogFormat,
    adopted: config.adoptedLogs,
    log,
  });
  lifetime.onClose("container logs", () => logs.stop());

  return {
    engine,
    link,
    model,
    records: stores.records,
    network,
    host,
    oomScores,
    logs,
    stats: { source: () => connection.stats.source, layers: connection.stats.layers },
    streaming: {
      server: streamingServer,
      podDialer: createPodDialer({ engine, link, host, programs: stores.programs, log }, lifetime),
    },
    pauseImages: createPauseImages(config, engine, link, log),
    ociRuntimeServer:
      roots === undefined
        ? undefined
        : openOciRuntimeServer(stores.records, { stateDirectoryId: directoryId, roots }, log, lifetime),
    mappedRoots: roots,
    streamingServer,
    startVerb: helper.startVerb,
    orphanedNetworks,
    statsCounts: () => connection.stats.counts,
    corruptCheckpoints: stores.corruptCheckpoints,
    nodePrepared: () => connection.nodePrepared,
    engineConnected: (facts, signal) => connection.connected(facts, signal),
  };
}

function openNode(
  { clampOomScores, runtimeCgroups }: Config,
  endpoint: EngineEndpoint,
  log: Logger,
  lifetime: Lifetime,
): { readonly oomScores: HostOomScores; readonly engineProcesses: EngineProcesses } {
  const socketPath = endpoint.kind === "unix" ? endpoint.path : undefined;
  const oomScores = new HostOomScores(clampOomScores, log, { socketPath });
  const engineProcesses = new EngineProcesses({
    endpoint,
    runtimeCgroups,
    clamp: (wanted) => oomScores.clamp(wanted),
    log,
  });
  lifetime.onClose("watch of the engine's processes", () => engineProcesses.stop());
  return { oomScores, engineProcesses };
}

/** Listens when it returns, so that every URL has a port. */
export async function openStreaming(
  config: Config,
  log: Logger,
  lifetime: Lifetime,
): Promise<RunningStreamingServer> {
  const { streamingTlsCertFile: cert, streamingTlsPrivateKeyFile: key } = config;
  const files = cert === undefined || key === undefined ? undefined : new TlsFiles({ cert, key });
  const server = await startStreamingServer({
    bindAddress: config.streamingBindAddress,
    tls: files && { ...(await files.read()), renewed: () => files.renewed() },
    idleTimeoutMs: config.streamingConnectionIdleTimeoutMs,
    log,
  });
  lifetime.onClose("streaming server", () => server.stop(0));
  return server;
}

/** Starts at the first use. */
function openHelper(programs: string, log: Logger, lifetime: Lifetime): HelperProcess {
  const helper = new HelperProcess({ program: () => programPath("helper", arch, programs), log });
  lifetime.onClose("helper process", () => helper.close());
  return helper;
}

/** The pause image is pulled with the node's credentials, or loaded from the built-in one. */
function createPauseImages(config: Config, engine: Engine, link: EngineLink, log: Logger): PauseImageSource {
  const { pauseImage: reference, builtinPauseImage, dockerConfigDir } = config;
  const credentials = new RegistryCredentialStore({ directory: dockerConfigDir ?? kubeletDirectory, log });
  const pullDeps = { engine, credentials, progressDeadlineMs: config.imagePullProgressDeadlineMs, log };
  const images = new PauseImages(
    {
      inspectImage: (name, signal) => engine.inspectImage(name, signal),
      loadImage: (archive, signal) => engine.loadImage(archive, signal),
      pull: (name, signal) => pullForPause(name, pullDeps, signal),
      get architecture() {
        return link.facts?.architecture ?? "amd64";
      },
      now: () => performance.now(),
      log,
    },
    { reference, builtin: builtinPauseImage === "forbid" ? "forbidden" : "fallback" },
  );
  return {
    ensure: (signal) => images.ensure(signal),
    invalidate: () => {
      images.invalidate();
    },
    isPinned: (names) => images.isPinned(names),
    reference,
  };
}
