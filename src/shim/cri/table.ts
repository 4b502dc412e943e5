/** Every RPC that is built, by name, bound to the services it acts on. What is not here answers UNIMPLEMENTED. */
import type { Call } from "../lib/call.js";
import { SingleFlight } from "../lib/sync/single-flight.js";
import type {
  Answer,
  ContainerStats,
  FilesystemUsage,
  ImageService,
  PodSandboxMetrics,
  PodSandboxStats,
  RuntimeService,
} from "../domain/cri.js";
import type { ValidRequests } from "../domain/requests.js";
import { attach } from "./container/attach.js";
import { checkpointContainer } from "./container/checkpoint-container.js";
import { containerStats } from "./stats/container-stats.js";
import { containerStatus } from "./container/container-status.js";
import { createContainer } from "./container/create-container.js";
import { exec } from "./container/exec.js";
import { execSync } from "./container/exec-sync.js";
import { getContainerEvents } from "./events/get-container-events.js";
import { imageFsInfo } from "./image/image-fs-info.js";
import { imageStatus } from "./image/image-status.js";
import { listContainerStats, readListedContainers } from "./stats/container-stats.js";
import { listContainers } from "./container/list-containers.js";
import { listImages } from "./image/list-images.js";
import { listMetricDescriptors } from "./stats/list-pod-sandbox-metrics.js";
import { listPodSandboxMetrics, readPodMetrics } from "./stats/list-pod-sandbox-metrics.js";
import { listPodSandboxStats, readListedPods } from "./stats/pod-sandbox-stats.js";
import { listPodSandbox } from "./sandbox/list-pod-sandbox.js";
import { inChunks, type Send } from "./in-chunks.js";
import { podSandboxStats } from "./stats/pod-sandbox-stats.js";
import { podSandboxStatus } from "./sandbox/pod-sandbox-status.js";
import { portForward } from "./sandbox/port-forward.js";
import { pullImage } from "./image/pull-image.js";
import { removeContainer } from "./container/remove-container.js";
import { removeImage } from "./image/remove-image.js";
import { removePodSandbox } from "./sandbox/remove-pod-sandbox.js";
import { runPodSandbox } from "./sandbox/run-pod-sandbox.js";
import { runtimeConfig } from "./runtime/runtime-config.js";
import { reopenContainerLog } from "./container/reopen-container-log.js";
import type { Services } from "./services.js";
import { startContainer } from "./container/start-container.js";
import { status } from "./runtime/status.js";
import { stopContainer } from "./container/stop-container.js";
import { stopPodSandbox } from "./sandbox/stop-pod-sandbox.js";
import { updateContainerResources } from "./container/update-container-resources.js";
import { updatePodSandboxResources } from "./sandbox/update-pod-sandbox-resources.js";
import { updateRuntimeConfig } from "./runtime/runtime-config.js";
import { version } from "./runtime/version.js";

type Rpcs = RuntimeService & ImageService;

/**
 * Answers that are large: the items are given one by one, and the server encodes each before the next one is
 * made.
 */
interface ListedItems {
  readonly ListContainerStats: ContainerStats;
  readonly ListPodSandboxStats: PodSandboxStats;
  readonly ListPodSandboxMetrics: PodSandboxMetrics;
}

/** A handler gets a request that passed validation. Where the answer is a stream, it sends as many as it likes. */
export type RpcHandler<Name extends keyof ValidRequests & keyof Rpcs> = Name extends keyof ListedItems
  ? (request: ValidRequests[Name], call: Call) => AsyncIterable<Answer<ListedItems[Name]>>
  : Rpcs[Name]["stream"] extends true
    ? (request: ValidRequests[Name], call: Call, send: Send<Rpcs[Name]["response"]>) => Promise<void>
    : (request: ValidRequests[Name], call: Call) => Promise<Answer<Rpcs[Name]["response"]>>;

export type RpcTable<Names extends keyof ValidRequests & keyof Rpcs> = {
  readonly [Name in Names]: RpcHandler<Name>;
};

type ImageRpcs = keyof ValidRequests & keyof ImageService;
type RuntimeRpcs = keyof ValidRequests & keyof RuntimeService;

export function runtimeRpcs(services: Services): RpcTable<RuntimeRpcs> {
  return {
    Version: (request, call) => version(request, services, call),
    Status: (request, call) => status(request, services, call),
    RuntimeConfig: (request, call) => runtimeConfig(request, services, call),
    UpdateRuntimeConfig: (request) => updateRuntimeConfig(request, services),
    RunPodSandbox: (request, call) => runPodSandbox(request, services, call),
    StopPodSandbox: (request, call) => stopPodSandbox(request, services, call),
    RemovePodSandbox: (request, call) => removePodSandbox(request, services, call),
    PodSandboxStatus: (request, call) => podSandboxStatus(request, services, call),
    ListPodSandbox: (request, call) => listPodSandbox(request, services, call),
    StreamPodSandboxes: async (request, call, send) => {
      const { items } = await listPodSandbox({ filter: request.filter }, services, call);
      await inChunks(items, (pod_sandboxes) => send({ pod_sandboxes }));
    },
    CreateContainer: (request, call) => createContainer(request, services, call),
    StartContainer: (request, call) => startContainer(request, services, call),
    StopContainer: (request, call) => stopContainer(request, services, call),
    RemoveContainer: (request, call) => removeContainer(request, services, call),
    ListContainers: (request, call) => listContainers(request, services, call),
    StreamContainers: async (request, call, send) => {
      const { containers } = await listContainers({ filter: request.filter }, services, call);
      await inChunks(containers, (chunk) => send({ containers: chunk }));
    },
    ContainerStatus: (request, call) => containerStatus(request, services, call),
    UpdateContainerResources: (request, call) => updateContainerResources(request, services, call),
    CheckpointContainer: (request, call) => checkpointContainer(request, services, call),
    UpdatePodSandboxResources: (request, call) => updatePodSandboxResources(request, services, call),
    GetContainerEvents: (request, call, send) => getContainerEvents(request, services, call, send),
    ContainerStats: (request, call) => containerStats(request, services, call),
    ListContainerStats: (request, call) => readListedContainers(request, services, call),
    PodSandboxStats: (request, call) => podSandboxStats(request, services, call),
    ListPodSandboxStats: (request, call) => readListedPods(request, services, call),
    StreamContainerStats: async (request, call, send) => {
      const { stats } = await listContainerStats({ filter: request.filter }, services, call);
      await inChunks(stats ?? [], (container_stats) => send({ container_stats }));
    },
    StreamPodSandboxStats: async (request, call, send) => {
      const { stats } = await listPodSandboxStats({ filter: request.filter }, services, call);
      await inChunks(stats ?? [], (pod_sandbox_stats) => send({ pod_sandbox_stats }));
    },
    StreamPodSandboxMetrics: async (_request, call, send) => {
      const { pod_metrics } = await listPodSandboxMetrics({}, services, call);
      await inChunks(pod_metrics ?? [], (pod_sandbox_metrics) => send({ pod_sandbox_metrics }));
    },
    ListMetricDescriptors: () => listMetricDescriptors(),
    ListPodSandboxMetrics: (_request, call) => readPodMetrics(services, call),
    ReopenContainerLog: (request, call) => reopenContainerLog(request, services, call),
    ExecSync: (request, call) => execSync(request, services, call),
    Exec: (request, call) => exec(request, services, call),
    Attach: (request, call) => attach(request, services, call),
    PortForward: (request, call) => portForward(request, services, call),
  };
}

export function imageRpcs(services: Services): RpcTable<ImageRpcs> {
  const pullDeps = { ...services, pulls: new SingleFlight<string>() };
  const fileSystemDeps = {
    ...services,
    flight: new SingleFlight<Answer<FilesystemUsage>>(),
    cache: { value: undefined, readAtMs: 0 },
  };
  return {
    ListImages: (request, call) => listImages(request, services, call),
    StreamImages: async (request, call, send) => {
      const { images = [] } = await listImages({ filter: request.filter }, services, call);
      await inChunks(images, (chunk) => send({ images: chunk }));
    },
    ImageStatus: (request, call) => imageStatus(request, services, call),
    PullImage: (request, call) => pullImage(request, pullDeps, call),
    RemoveImage: (request, call) => removeImage(request, services, call),
    ImageFsInfo: (request, call) => imageFsInfo(request, fileSystemDeps, call),
  };
}
