/** Every RPC that is built, by name, bound to the services it acts on. What is not here answers UNIMPLEMENTED. */
import type { Call } from "../base/call.js";
import { SingleFlight } from "../base/single-flight.js";
import type { Answer, FilesystemUsage, ImageService, RuntimeService } from "../domain/cri.js";
import type { ValidRequests } from "../domain/requests.js";
import { containerStatus } from "./container-status.js";
import { createContainer } from "./create-container.js";
import { execSync } from "./exec-sync.js";
import { imageFsInfo } from "./image-fs-info.js";
import { imageStatus } from "./image-status.js";
import { listContainers } from "./list-containers.js";
import { listImages } from "./list-images.js";
import { listPodSandbox } from "./list-pod-sandbox.js";
import { podSandboxStatus } from "./pod-sandbox-status.js";
import { pullImage } from "./pull-image.js";
import { removeContainer } from "./remove-container.js";
import { removeImage } from "./remove-image.js";
import { removePodSandbox } from "./remove-pod-sandbox.js";
import { runPodSandbox } from "./run-pod-sandbox.js";
import { runtimeConfig } from "./runtime-config.js";
import type { Services } from "./services.js";
import { startContainer } from "./start-container.js";
import { status } from "./status.js";
import { stopContainer } from "./stop-container.js";
import { stopPodSandbox } from "./stop-pod-sandbox.js";
import { updateContainerResources } from "./update-container-resources.js";
import { updateRuntimeConfig } from "./update-runtime-config.js";
import { version } from "./version.js";

type Responses = { readonly [Name in keyof RuntimeService]: RuntimeService[Name]["response"] } & {
  readonly [Name in keyof ImageService]: ImageService[Name]["response"];
};

/** A handler gets a request that passed validation. */
export type RpcHandler<Name extends keyof ValidRequests & keyof Responses> = (
  request: ValidRequests[Name],
  call: Call,
) => Promise<Answer<Responses[Name]>>;

export type RpcTable<Names extends keyof ValidRequests & keyof Responses> = {
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
    CreateContainer: (request, call) => createContainer(request, services, call),
    StartContainer: (request, call) => startContainer(request, services, call),
    StopContainer: (request, call) => stopContainer(request, services, call),
    RemoveContainer: (request, call) => removeContainer(request, services, call),
    ListContainers: (request, call) => listContainers(request, services, call),
    ContainerStatus: (request, call) => containerStatus(request, services, call),
    UpdateContainerResources: (request, call) => updateContainerResources(request, services, call),
    ExecSync: (request, call) => execSync(request, services, call),
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
    ImageStatus: (request, call) => imageStatus(request, services, call),
    PullImage: (request, call) => pullImage(request, pullDeps, call),
    RemoveImage: (request, call) => removeImage(request, services, call),
    ImageFsInfo: (request, call) => imageFsInfo(request, fileSystemDeps, call),
  };
}
