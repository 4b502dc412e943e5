/** Builds the whole program from its parts, starts it, and stops it in reverse order. */
import { CheckpointDirectory } from "../../checkpoints/directory-store.js";
import { selectNetworkPlugin } from "../network/select-plugin.js";
import { withDeadline } from "./base/abort.js";
import { isKind, ShimError } from "./base/errors.js";
import { KeyedLock } from "./base/keyed-lock.js";
import type { Logger } from "./base/log.js";
import type { Config } from "./config/resolve.js";
import type { NodeFacts } from "./domain/node-facts.js";
import { DockerEngine } from "./engine/docker-engine.js";
import type { EngineEndpoint } from "./engine/endpoint.js";
import { formatEndpoint, readTlsMaterial } from "./engine/endpoint.js";
import { instrument } from "./engine/instrumented-engine.js";
import { RegistryCredentialStore } from "./engine/registry-credentials.js";
import type { ServiceHandlers } from "./grpc/handlers.js";
import { withItemBytes } from "./grpc/list-bytes.js";
import { loadCriApi } from "./grpc/proto.js";
import type { GrpcServer } from "./grpc/server.js";
import { startGrpcServer } from "./grpc/server.js";
import { isValidatedRpc, validateRequest } from "./grpc/validate/validate-request.js";
import { EngineProcesses } from "./host/engine-processes.js";
import { chooseHost } from "./host/choose-host.js";
import { HostOomScores } from "./host/oom-scores.js";
import { RemoteHost } from "./host/remote-host.js";
import { PauseImages } from "./pause/ensure-pause-image.js";
import type { HostAccess } from "./ports/host.js";
import type { NetworkPlugin } from "./ports/network-plugin.js";
import { pullForPause } from "./rpc/pull-for-pause.js";
import { repairAfterStart } from "./rpc/repair.js";
import type { Services } from "./rpc/services.js";
import { imageRpcs, runtimeRpcs } from "./rpc/table.js";
import { claimStateDirectory, openStateDirectory } from "./state/state-directory.js";
import { ContainerRecords } from "./state/container-records.js";
import { EngineLink } from "./state/engine-link.js";
import { ImageCache } from "./state/image-cache.js";
import { ImageUsersCache } from "./state/image-users-cache.js";
import { PodRecords } from "./state/pod-records.js";
import { ReadModel } from "./state/read-model.js";
import { StateSync } from "./state/state-sync.js";

/** Limit of each undo and clean-up step. */
const cleanUpTimeoutMs = 30_000;
/** What the start may wait for: a network plugin's own preparations. */
const pluginStartTimeoutMs = 30_000;
/** Where a kubelet with dockershim looked for the node's registry credentials first. */
const kubeletDirectory = "/var/lib/kubelet";
/** Where cri-dockerd keeps its checkpoints: pods that it made are released with them. */
const criDockerdCheckpoints = "/var/lib/cri-dockerd/sandbox";

export interface Shim {
  /** As formatted for people: `unix:///var/run/dockershim.sock`. */
  readonly endpoint: string;
  readonly network: NetworkPlugin;
  readonly link: EngineLink;
  readonly pauseImageReference: string;
  /** Resolves at the first time that the engine is live. */
  readonly firstLive: Promise<NodeFacts>;
  /** Rejects with what makes going on impossible, such as an engine whose cgroup driver contradicts the flag. */
  readonly failed: Promise<never>;
  /** Takes no new calls, waits for those in flight up to `timeoutMs`, and ends. Containers keep running. */
  stop(timeoutMs: number): Promise<void>;
}

/** Serves as soon as it returns, with or without an engine. */
export async function startShim(
  config: Config,
  log: Logger,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Shim> {
  const directories = await openStateDirectory(config.stateDir);
  const claim = await claimStateDirectory(config.stateDir);
  const undo: (() => Promise<unknown>)[] = [() => claim.release()];
  try {
    const endpoint = await engineEndpoint(config, environment);
    const docker = new DockerEngine({ endpoint, shortTimeoutMs: config.runtimeRequestTimeoutMs });
    undo.push(() => {
      docker.close();
      return Promise.resolve();
    });
    const engine = instrument(docker, { log, observe: () => undefined });
    const podRecords = await PodRecords.open(directories.pods, log, {
      quarantineDirectory: directories.quarantine,
    });
    const containerRecords = await ContainerRecords.open(directories.containers, log);
    const checkpoints = await CheckpointDirectory.open({
      directory: directories.checkpoints,
      quarantineDirectory: directories.quarantine,
      alsoRead: [criDockerdCheckpoints],
      log,
    });
    const network = await selectNetworkPlugin(
      { name: config.networkPlugin, cniConfDir: config.cniConfDir },
      log,
    );
    await withDeadline(undefined, pluginStartTimeoutMs, "start the network plugin", (signal) =>
      network.start(signal),
    );

    const link = new EngineLink();
    const model = new ReadModel((id) => podRecords.get(id));
    const images = new ImageCache(engine);
    const oomScores = new HostOomScores(config.clampOomScores, log, {
      socketPath: endpoint.kind === "unix" ? endpoint.path : undefined,
    });
    const engineProcesses = new EngineProcesses({
      endpoint,
      runtimeCgroups: config.runtimeCgroups,
      clamp: (wanted) => oomScores.clamp(wanted),
      log,
    });
    const credentials = new RegistryCredentialStore({
      directory: config.dockerConfigDir ?? kubeletDirectory,
      log,
    });
    const pauseImages = new PauseImages(
      {
        inspectImage: (reference, signal) => engine.inspectImage(reference, signal),
        loadImage: (archive, signal) => engine.loadImage(archive, signal),
        pull: (reference, signal) =>
          pullForPause(
            reference,
            { engine, credentials, progressDeadlineMs: config.imagePullProgressDeadlineMs, log },
            signal,
          ),
        get architecture() {
          return link.facts?.architecture ?? "amd64";
        },
        now: () => performance.now(),
        log,
      },
      {
        reference: config.pauseImage,
        builtin: config.builtinPauseImage === "forbid" ? "forbidden" : "fallback",
      },
    );

    let host: HostAccess = new RemoteHost();
    let wentLive!: (facts: NodeFacts) => void;
    let fail!: (error: unknown) => void;
    const firstLive = new Promise<NodeFacts>((resolve) => {
      wentLive = resolve;
    });
    const failed = new Promise<never>((_, reject) => {
      fail = reject;
    });
    failed.catch(() => undefined); // Whoever cares races it.

    let everLive = false;
    const sync = new StateSync({
      engine,
      model,
      link,
      log,
      onConnect: async (facts) => {
        refuseOtherCgroupDriver(config, facts);
        host = await chooseHost(facts, formatEndpoint(endpoint), log);
        if (host.local) {
          await oomScores.detect();
          engineProcesses.start();
        }
        images.forget();
        pauseImages.invalidate();
      },
      // An engine that can never be served is a reason not to start; one that was exchanged later may come back.
      onConnectError: (error) => {
        if (everLive || !isKind(error, "precondition", "invalid")) return "tryAgain";
        fail(error);
        return "giveUp";
      },
      onLive: (facts) => {
        everLive = true;
        wentLive(facts);
        repairAfterStart(services).catch((error: unknown) => {
          log.error({ err: ShimError.from(error).message }, "repair after start failed");
        });
      },
      onImageEvent: () => {
        images.forget();
        pauseImages.invalidate();
      },
    });
    podRecords.onChange((id) => {
      model.recordChanged(id);
    });

    const services: Services = {
      engine,
      link,
      model,
      sync,
      podRecords,
      containerRecords,
      checkpoints,
      network,
      host: () => host,
      pauseImages: {
        ensure: (signal) => pauseImages.ensure(signal),
        invalidate: () => {
          pauseImages.invalidate();
        },
        isPinned: (names) => pauseImages.isPinned(names),
        reference: config.pauseImage,
      },
      oomScores,
      images,
      imageUsers: new ImageUsersCache(),
      sandboxLanes: new KeyedLock(),
      containerLanes: new KeyedLock(),
      imageLanes: new KeyedLock(),
      settings: { cleanUpTimeoutMs, pullProgressDeadlineMs: config.imagePullProgressDeadlineMs },
      log,
    };
    const server = await serve(config, services, log, environment);
    undo.push(() => server.close());
    sync.start();

    return {
      endpoint: server.endpoint,
      network,
      link,
      pauseImageReference: config.pauseImage,
      firstLive,
      failed,
      stop: async (timeoutMs) => {
        await server.drain(timeoutMs);
        await sync.stop();
        await engineProcesses.stop();
        docker.close();
        await claim.release();
      },
    };
  } catch (error) {
    for (const step of undo.reverse()) await step();
    throw error;
  }
}

async function engineEndpoint(
  { dockerEndpoint }: Config,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<EngineEndpoint> {
  if (dockerEndpoint.kind === "unix") return dockerEndpoint;
  const tls = await readTlsMaterial(environment);
  return tls === undefined ? dockerEndpoint : { ...dockerEndpoint, tls };
}

/** Containers of a kubelet with another cgroup driver than the engine's would be in cgroups that it does not know. */
function refuseOtherCgroupDriver({ cgroupDriver }: Config, facts: NodeFacts): void {
  if (cgroupDriver === undefined || cgroupDriver === facts.cgroupDriver) return;
  throw new ShimError(
    "invalid",
    `--cgroup-driver=${cgroupDriver}: the Docker Engine uses the cgroup driver "${facts.cgroupDriver}"`,
  );
}

async function serve(
  config: Config,
  services: Services,
  log: Logger,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<GrpcServer> {
  const api = loadCriApi();
  const runtime = runtimeRpcs(services);
  const { containerRuntimeEndpoint } = config;
  return startGrpcServer({
    endpoint: containerRuntimeEndpoint.kind === "unix" ? containerRuntimeEndpoint : { kind: "fd" },
    environment,
    api,
    log,
    validate: (rpc, request) => {
      // Both come from the same method definition, which the type of a callback cannot say.
      if (isValidatedRpc(rpc)) validateRequest(rpc, request as never);
    },
    handlers: {
      RuntimeService: validated({
        ...runtime,
        ListPodSandbox: withItemBytes(
          runtime.ListPodSandbox,
          ({ items }) => items ?? [],
          api.encodeItem.sandbox,
        ),
        ListContainers: withItemBytes(
          runtime.ListContainers,
          ({ containers }) => containers ?? [],
          api.encodeItem.container,
        ),
      }),
      ImageService: validated(imageRpcs(services)),
    },
  });
}

/** The server's form of handlers that take validated requests: it calls none before `validate` has returned. */
function validated<Service>(handlers: Readonly<Record<string, unknown>>): ServiceHandlers<Service> {
  return handlers as ServiceHandlers<Service>;
}
