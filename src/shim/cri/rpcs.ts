/** One row for each implemented RPC. Others answer UNIMPLEMENTED. */
import type { Call } from "../../lib/call.js";
import type {
  Answer,
  Container,
  ContainerStats,
  Image,
  ImageService,
  PodSandbox,
  PodSandboxMetrics,
  PodSandboxStats,
  RuntimeService,
} from "../../domain/cri.js";
import type { RawRequest, ValidatedRpc, ValidRequests } from "../../domain/requests.js";
import type { ItemEncoders } from "../grpc/codec/cri-api.js";
import type { Send } from "../grpc/handlers.js";
import {
  ofContainer,
  ofImage,
  ofNewContainer,
  ofNothing,
  ofPod,
  ofSandbox,
  type RequestSubject,
} from "../grpc/request-subject.js";
import { checkBounds } from "../grpc/validate/bounds.js";
import {
  anyRequest,
  validCheckpointContainer,
  validCreateContainer,
  validExec,
  validExecSync,
  validImageStatus,
  validPortForward,
  validPullImage,
  validRemoveImage,
  validRunPodSandbox,
  validStopContainer,
  validUpdateContainerResources,
  validUpdatePodSandboxResources,
  validUpdateRuntimeConfig,
  withContainerId,
  withContainerState,
  withFilter,
  withSandboxId,
  withSandboxState,
  withStreams,
} from "../grpc/validate/validate-request.js";
import { attach } from "./container/attach.js";
import { checkpointContainer } from "./container/checkpoint-container.js";
import { containerStatus } from "./container/container-status.js";
import { createContainer } from "./container/create-container.js";
import { execSync } from "./container/exec-sync.js";
import { exec } from "./container/exec.js";
import { listContainers } from "./container/list-containers.js";
import { removeContainer } from "./container/remove-container.js";
import { reopenContainerLog } from "./container/reopen-container-log.js";
import { startContainer } from "./container/start-container.js";
import { stopContainer } from "./container/stop-container.js";
import { updateContainerResources } from "./container/update-container-resources.js";
import { getContainerEvents } from "./events/get-container-events.js";
import { imageFsInfo } from "./image/image-fs-info.js";
import { imageStatus } from "./image/image-status.js";
import { listImages } from "./image/list-images.js";
import { pullImage } from "./image/pull-image.js";
import { removeImage } from "./image/remove-image.js";
import { runtimeConfig, updateRuntimeConfig } from "./runtime/runtime-config.js";
import { status } from "./runtime/status.js";
import { version } from "./runtime/version.js";
import { listPodSandbox } from "./sandbox/list-pod-sandbox.js";
import { podSandboxStatus } from "./sandbox/pod-sandbox-status.js";
import { portForward } from "./sandbox/port-forward.js";
import { removePodSandbox } from "./sandbox/remove-pod-sandbox.js";
import { runPodSandbox } from "./sandbox/run-pod-sandbox.js";
import { stopPodSandbox } from "./sandbox/stop-pod-sandbox.js";
import { updatePodSandboxResources } from "./sandbox/update-pod-sandbox-resources.js";
import type { Services } from "./services.js";
import { containerStats, listContainerStats } from "./stats/container-stats.js";
import { listMetricDescriptors, listPodSandboxMetrics } from "./stats/list-pod-sandbox-metrics.js";
import { listPodSandboxStats, podSandboxStats } from "./stats/pod-sandbox-stats.js";

type Messages = RuntimeService & ImageService;

/** The columns of all rows. */
interface RowOf<Name extends ValidatedRpc> {
  readonly validate: (request: RawRequest<Name>) => ValidRequests[Name];
  /** Calls that change nothing are logged at debug only. */
  readonly readOnly: boolean;
  /** Subject of the log lines of a call. */
  readonly subject: (request: RawRequest<Name>) => RequestSubject;
}

interface UnaryRow<Name extends ValidatedRpc> extends RowOf<Name> {
  readonly handler: (
    request: ValidRequests[Name],
    services: Services,
    call: Call,
  ) => Promise<Answer<Messages[Name]["response"]>>;
}

interface StreamRow<Name extends ValidatedRpc> extends RowOf<Name> {
  readonly handler: (
    request: ValidRequests[Name],
    services: Services,
    call: Call,
    send: Send<Answer<Messages[Name]["response"]>>,
  ) => Promise<void>;
}

/** How the items of a list become its answer. */
export interface ListForm {
  readonly item: keyof ItemEncoders;
  /**
   * `each`: each call encodes its items. `keep`: the bytes of an item are kept, because the handler returns
   * the same object in many calls. `keepList`: the bytes of the whole list are kept, too.
   */
  readonly encoding: "each" | "keep" | "keepList";
  /** Sent as a stream of messages instead of one message. */
  readonly stream: boolean;
}

/** A list RPC, or its streamed form. The handler returns the items. */
interface ListRow<Name extends keyof ListedItems> extends RowOf<Name>, ListForm {
  readonly handler: (
    request: ValidRequests[Name],
    services: Services,
    call: Call,
  ) => Promise<readonly Answer<ListedItems[Name]>[]> | AsyncIterable<Answer<ListedItems[Name]>>;
}

interface ListedItems {
  readonly ListPodSandbox: PodSandbox;
  readonly StreamPodSandboxes: PodSandbox;
  readonly ListContainers: Container;
  readonly StreamContainers: Container;
  readonly ListContainerStats: ContainerStats;
  readonly StreamContainerStats: ContainerStats;
  readonly ListPodSandboxStats: PodSandboxStats;
  readonly StreamPodSandboxStats: PodSandboxStats;
  readonly ListPodSandboxMetrics: PodSandboxMetrics;
  readonly StreamPodSandboxMetrics: PodSandboxMetrics;
  readonly ListImages: Image;
  readonly StreamImages: Image;
}

export type Row<Name extends ValidatedRpc> = Name extends keyof ListedItems
  ? ListRow<Name>
  : Messages[Name]["stream"] extends true
    ? StreamRow<Name>
    : UnaryRow<Name>;

export const rpcs: { readonly [Name in ValidatedRpc]: Row<Name> & RowOf<Name> } = {
  // runtime
  Version: { handler: version, validate: anyRequest, readOnly: true, subject: ofNothing },
  Status: { handler: status, validate: anyRequest, readOnly: true, subject: ofNothing },
  RuntimeConfig: { handler: runtimeConfig, validate: anyRequest, readOnly: true, subject: ofNothing },
  UpdateRuntimeConfig: {
    handler: updateRuntimeConfig,
    validate: validUpdateRuntimeConfig,
    readOnly: false,
    subject: ofNothing,
  },
  GetContainerEvents: {
    handler: getContainerEvents,
    validate: anyRequest,
    readOnly: true,
    subject: ofNothing,
  },
  // sandbox
  RunPodSandbox: { handler: runPodSandbox, validate: validRunPodSandbox, readOnly: false, subject: ofPod },
  StopPodSandbox: { handler: stopPodSandbox, validate: withSandboxId, readOnly: false, subject: ofSandbox },
  RemovePodSandbox: {
    handler: removePodSandbox,
    validate: withSandboxId,
    readOnly: false,
    subject: ofSandbox,
  },
  UpdatePodSandboxResources: {
    handler: updatePodSandboxResources,
    validate: validUpdatePodSandboxResources,
    readOnly: false,
    subject: ofSandbox,
  },
  PortForward: { handler: portForward, validate: validPortForward, readOnly: false, subject: ofSandbox },
  PodSandboxStatus: {
    handler: podSandboxStatus,
    validate: withSandboxId,
    readOnly: true,
    subject: ofSandbox,
  },
  ListPodSandbox: {
    handler: listPodSandbox,
    item: "sandbox",
    encoding: "keep",
    stream: false,
    validate: withSandboxState,
    readOnly: true,
    subject: ofNothing,
  },
  StreamPodSandboxes: {
    handler: listPodSandbox,
    item: "sandbox",
    encoding: "keep",
    stream: true,
    validate: withSandboxState,
    readOnly: true,
    subject: ofNothing,
  },
  // container
  CreateContainer: {
    handler: createContainer,
    validate: validCreateContainer,
    readOnly: false,
    subject: ofNewContainer,
  },
  StartContainer: {
    handler: startContainer,
    validate: withContainerId,
    readOnly: false,
    subject: ofContainer,
  },
  StopContainer: {
    handler: stopContainer,
    validate: validStopContainer,
    readOnly: false,
    subject: ofContainer,
  },
  RemoveContainer: {
    handler: removeContainer,
    validate: withContainerId,
    readOnly: false,
    subject: ofContainer,
  },
  UpdateContainerResources: {
    handler: updateContainerResources,
    validate: validUpdateContainerResources,
    readOnly: false,
    subject: ofContainer,
  },
  CheckpointContainer: {
    handler: checkpointContainer,
    validate: validCheckpointContainer,
    readOnly: false,
    subject: ofContainer,
  },
  ReopenContainerLog: {
    handler: reopenContainerLog,
    validate: withContainerId,
    readOnly: false,
    subject: ofContainer,
  },
  Exec: { handler: exec, validate: validExec, readOnly: false, subject: ofContainer },
  Attach: { handler: attach, validate: withStreams, readOnly: false, subject: ofContainer },
  // Exec probes come all the time. They may change the container, but not what this program knows of it.
  ExecSync: { handler: execSync, validate: validExecSync, readOnly: true, subject: ofContainer },
  ContainerStatus: {
    handler: containerStatus,
    validate: withContainerId,
    readOnly: true,
    subject: ofContainer,
  },
  ListContainers: {
    handler: listContainers,
    item: "container",
    encoding: "keepList",
    stream: false,
    validate: withContainerState,
    readOnly: true,
    subject: ofNothing,
  },
  StreamContainers: {
    handler: listContainers,
    item: "container",
    encoding: "keep",
    stream: true,
    validate: withContainerState,
    readOnly: true,
    subject: ofNothing,
  },
  // stats
  ContainerStats: {
    handler: containerStats,
    validate: withContainerId,
    readOnly: true,
    subject: ofContainer,
  },
  ListContainerStats: {
    handler: listContainerStats,
    item: "containerStats",
    encoding: "each",
    stream: false,
    validate: withFilter,
    readOnly: true,
    subject: ofNothing,
  },
  StreamContainerStats: {
    handler: listContainerStats,
    item: "containerStats",
    encoding: "each",
    stream: true,
    validate: withFilter,
    readOnly: true,
    subject: ofNothing,
  },
  PodSandboxStats: { handler: podSandboxStats, validate: withSandboxId, readOnly: true, subject: ofSandbox },
  ListPodSandboxStats: {
    handler: listPodSandboxStats,
    item: "sandboxStats",
    encoding: "each",
    stream: false,
    validate: withFilter,
    readOnly: true,
    subject: ofNothing,
  },
  StreamPodSandboxStats: {
    handler: listPodSandboxStats,
    item: "sandboxStats",
    encoding: "each",
    stream: true,
    validate: withFilter,
    readOnly: true,
    subject: ofNothing,
  },
  ListPodSandboxMetrics: {
    handler: listPodSandboxMetrics,
    item: "sandboxMetrics",
    encoding: "each",
    stream: false,
    validate: anyRequest,
    readOnly: true,
    subject: ofNothing,
  },
  StreamPodSandboxMetrics: {
    handler: listPodSandboxMetrics,
    item: "sandboxMetrics",
    encoding: "each",
    stream: true,
    validate: anyRequest,
    readOnly: true,
    subject: ofNothing,
  },
  ListMetricDescriptors: {
    handler: listMetricDescriptors,
    validate: anyRequest,
    readOnly: true,
    subject: ofNothing,
  },
  // image
  PullImage: { handler: pullImage, validate: validPullImage, readOnly: false, subject: ofImage },
  RemoveImage: { handler: removeImage, validate: validRemoveImage, readOnly: false, subject: ofImage },
  ImageStatus: { handler: imageStatus, validate: validImageStatus, readOnly: true, subject: ofImage },
  ImageFsInfo: { handler: imageFsInfo, validate: anyRequest, readOnly: true, subject: ofNothing },
  ListImages: {
    handler: listImages,
    item: "image",
    encoding: "keepList",
    stream: false,
    validate: withFilter,
    readOnly: true,
    subject: ofNothing,
  },
  StreamImages: {
    handler: listImages,
    item: "image",
    encoding: "keep",
    stream: true,
    validate: withFilter,
    readOnly: true,
    subject: ofNothing,
  },
};

/** The request, narrowed. Throws a ShimError: `invalid`, or `unsupported` for what Docker cannot express. */
export function validateRequest<Name extends ValidatedRpc>(
  name: Name,
  request: RawRequest<Name>,
): ValidRequests[Name] {
  checkBounds(request);
  const { validate }: RowOf<Name> = rpcs[name];
  return validate(request);
}
