/** One row for each implemented RPC. Others answer UNIMPLEMENTED. */
import type { Call } from "../../lib/call.js";
import type {
  Answer,
  Container,
  ContainerStats,
  CriRpcs,
  Image,
  PodSandbox,
  PodSandboxMetrics,
  PodSandboxStats,
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
  ) => Promise<Answer<CriRpcs[Name]["response"]>>;
}

interface StreamRow<Name extends ValidatedRpc> extends RowOf<Name> {
  readonly handler: (
    request: ValidRequests[Name],
    services: Services,
    call: Call,
    send: Send<Answer<CriRpcs[Name]["response"]>>,
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
  : CriRpcs[Name]["stream"] extends true
    ? StreamRow<Name>
    : UnaryRow<Name>;

// What a request is checked for, and what it is about.
const anything = { validate: anyRequest, subject: ofNothing };
const byContainer = { validate: withContainerId, subject: ofContainer };
const bySandbox = { validate: withSandboxId, subject: ofSandbox };

// The items of a list, whether they are sent at once or as a stream.
const sandboxes = { handler: listPodSandbox, item: "sandbox", validate: withSandboxState } as const;
const containers = { handler: listContainers, item: "container", validate: withContainerState } as const;
const images = { handler: listImages, item: "image", validate: withFilter } as const;
const statsOfContainers = {
  handler: listContainerStats,
  item: "containerStats",
  validate: withFilter,
} as const;
const statsOfSandboxes = {
  handler: listPodSandboxStats,
  item: "sandboxStats",
  validate: withFilter,
} as const;
const metrics = { handler: listPodSandboxMetrics, item: "sandboxMetrics", validate: anyRequest } as const;

export const rpcs: { readonly [Name in ValidatedRpc]: Row<Name> & RowOf<Name> } = {
  // runtime
  Version: read(version, anything),
  Status: read(status, anything),
  RuntimeConfig: read(runtimeConfig, anything),
  UpdateRuntimeConfig: change(updateRuntimeConfig, {
    validate: validUpdateRuntimeConfig,
    subject: ofNothing,
  }),
  GetContainerEvents: read(getContainerEvents, anything),
  // sandbox
  RunPodSandbox: change(runPodSandbox, { validate: validRunPodSandbox, subject: ofPod }),
  StopPodSandbox: change(stopPodSandbox, bySandbox),
  RemovePodSandbox: change(removePodSandbox, bySandbox),
  UpdatePodSandboxResources: change(updatePodSandboxResources, {
    validate: validUpdatePodSandboxResources,
    subject: ofSandbox,
  }),
  PortForward: change(portForward, { validate: validPortForward, subject: ofSandbox }),
  PodSandboxStatus: read(podSandboxStatus, bySandbox),
  ListPodSandbox: list(sandboxes, "keep"),
  StreamPodSandboxes: stream(sandboxes, "keep"),
  // container
  CreateContainer: change(createContainer, { validate: validCreateContainer, subject: ofNewContainer }),
  StartContainer: change(startContainer, byContainer),
  StopContainer: change(stopContainer, { validate: validStopContainer, subject: ofContainer }),
  RemoveContainer: change(removeContainer, byContainer),
  UpdateContainerResources: change(updateContainerResources, {
    validate: validUpdateContainerResources,
    subject: ofContainer,
  }),
  CheckpointContainer: change(checkpointContainer, {
    validate: validCheckpointContainer,
    subject: ofContainer,
  }),
  ReopenContainerLog: change(reopenContainerLog, byContainer),
  Exec: change(exec, { validate: validExec, subject: ofContainer }),
  Attach: change(attach, { validate: withStreams, subject: ofContainer }),
  // Exec probes come all the time. They may change the container, but not what this program knows of it.
  ExecSync: read(execSync, { validate: validExecSync, subject: ofContainer }),
  ContainerStatus: read(containerStatus, byContainer),
  ListContainers: list(containers, "keepList"),
  StreamContainers: stream(containers, "keep"),
  // stats
  ContainerStats: read(containerStats, byContainer),
  ListContainerStats: list(statsOfContainers, "each"),
  StreamContainerStats: stream(statsOfContainers, "each"),
  PodSandboxStats: read(podSandboxStats, bySandbox),
  ListPodSandboxStats: list(statsOfSandboxes, "each"),
  StreamPodSandboxStats: stream(statsOfSandboxes, "each"),
  ListPodSandboxMetrics: list(metrics, "each"),
  StreamPodSandboxMetrics: stream(metrics, "each"),
  ListMetricDescriptors: read(listMetricDescriptors, anything),
  // image
  PullImage: change(pullImage, { validate: validPullImage, subject: ofImage }),
  RemoveImage: change(removeImage, { validate: validRemoveImage, subject: ofImage }),
  ImageStatus: read(imageStatus, { validate: validImageStatus, subject: ofImage }),
  ImageFsInfo: read(imageFsInfo, anything),
  ListImages: list(images, "keepList"),
  StreamImages: stream(images, "keep"),
};

/** `NoInfer`: else the compiler takes the columns' types from the row that they must fit. */
type BuiltRow<Handler, Columns> = {
  readonly handler: Handler;
  readonly readOnly: boolean;
} & NoInfer<Columns>;

function read<Handler, Columns>(handler: Handler, columns: Columns): BuiltRow<Handler, Columns> {
  return { handler, readOnly: true, ...columns };
}

function change<Handler, Columns>(handler: Handler, columns: Columns): BuiltRow<Handler, Columns> {
  return { handler, readOnly: false, ...columns };
}

function list<Items extends object>(items: Items, encoding: ListForm["encoding"]) {
  return { ...items, encoding, stream: false, readOnly: true, subject: ofNothing };
}

function stream<Items extends object>(items: Items, encoding: ListForm["encoding"]) {
  return { ...list(items, encoding), stream: true };
}

/** The request, narrowed. Throws a ShimError: `invalid`, or `unsupported` for what Docker cannot express. */
export function validateRequest<Name extends ValidatedRpc>(
  name: Name,
  request: RawRequest<Name>,
): ValidRequests[Name] {
  checkBounds(request);
  const { validate }: RowOf<Name> = rpcs[name];
  return validate(request);
}
