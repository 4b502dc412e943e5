/**
 * Requests after validation: sub-messages that an RPC cannot do without are there, enums and numbers are in
 * range, names and paths are well formed. Made only by `validateRequest`; everything behind it takes these
 * types.
 */
import type {
  AttachRequest,
  CheckpointContainerRequest,
  ContainerConfig,
  ContainerMetadata,
  ContainerStatsRequest,
  ContainerStatusRequest,
  CreateContainerRequest,
  ExecRequest,
  ExecSyncRequest,
  GetEventsRequest,
  ImageFsInfoRequest,
  ImageService,
  ImageSpec,
  ImageStatusRequest,
  ListContainersRequest,
  ListContainerStatsRequest,
  ListImagesRequest,
  ListMetricDescriptorsRequest,
  ListPodSandboxMetricsRequest,
  ListPodSandboxRequest,
  ListPodSandboxStatsRequest,
  PodSandboxConfig,
  PodSandboxMetadata,
  PodSandboxStatsRequest,
  PodSandboxStatusRequest,
  PortForwardRequest,
  PullImageRequest,
  RemoveContainerRequest,
  RemoveImageRequest,
  RemovePodSandboxRequest,
  ReopenContainerLogRequest,
  RunPodSandboxRequest,
  RuntimeConfigRequest,
  RuntimeService,
  StartContainerRequest,
  StatusRequest,
  StopContainerRequest,
  StopPodSandboxRequest,
  StreamContainersRequest,
  StreamImagesRequest,
  StreamPodSandboxesRequest,
  UpdateContainerResourcesRequest,
  UpdatePodSandboxResourcesRequest,
  UpdateRuntimeConfigRequest,
  VersionRequest,
  StreamContainerStatsRequest,
  StreamPodSandboxStatsRequest,
  StreamPodSandboxMetricsRequest,
} from "./cri.js";

export type SandboxConfig = PodSandboxConfig & { readonly metadata: PodSandboxMetadata };
export type ValidContainerConfig = ContainerConfig & {
  readonly metadata: ContainerMetadata;
  readonly image: ImageSpec;
};

export type ValidRunPodSandbox = RunPodSandboxRequest & { readonly config: SandboxConfig };
export type ValidCreateContainer = CreateContainerRequest & {
  readonly config: ValidContainerConfig;
  readonly sandbox_config: SandboxConfig;
};
export type ValidImageStatus = ImageStatusRequest & { readonly image: ImageSpec };
export type ValidPullImage = PullImageRequest & { readonly image: ImageSpec };
export type ValidRemoveImage = RemoveImageRequest & { readonly image: ImageSpec };

/** The validated request of each RPC, by the RPC's name. */
export interface ValidRequests {
  readonly Version: VersionRequest;
  readonly Status: StatusRequest;
  readonly RuntimeConfig: RuntimeConfigRequest;
  readonly UpdateRuntimeConfig: UpdateRuntimeConfigRequest;
  readonly RunPodSandbox: ValidRunPodSandbox;
  readonly StopPodSandbox: StopPodSandboxRequest;
  readonly RemovePodSandbox: RemovePodSandboxRequest;
  readonly PodSandboxStatus: PodSandboxStatusRequest;
  readonly ListPodSandbox: ListPodSandboxRequest;
  readonly StreamPodSandboxes: StreamPodSandboxesRequest;
  readonly CreateContainer: ValidCreateContainer;
  readonly StartContainer: StartContainerRequest;
  readonly StopContainer: StopContainerRequest;
  readonly RemoveContainer: RemoveContainerRequest;
  readonly ListContainers: ListContainersRequest;
  readonly StreamContainers: StreamContainersRequest;
  readonly ContainerStatus: ContainerStatusRequest;
  readonly UpdateContainerResources: UpdateContainerResourcesRequest;
  readonly CheckpointContainer: CheckpointContainerRequest;
  readonly UpdatePodSandboxResources: UpdatePodSandboxResourcesRequest;
  readonly ContainerStats: ContainerStatsRequest;
  readonly ListContainerStats: ListContainerStatsRequest;
  readonly PodSandboxStats: PodSandboxStatsRequest;
  readonly ListPodSandboxStats: ListPodSandboxStatsRequest;
  readonly ListMetricDescriptors: ListMetricDescriptorsRequest;
  readonly ListPodSandboxMetrics: ListPodSandboxMetricsRequest;
  readonly StreamContainerStats: StreamContainerStatsRequest;
  readonly StreamPodSandboxStats: StreamPodSandboxStatsRequest;
  readonly StreamPodSandboxMetrics: StreamPodSandboxMetricsRequest;
  readonly ReopenContainerLog: ReopenContainerLogRequest;
  readonly ExecSync: ExecSyncRequest;
  readonly Exec: ExecRequest;
  readonly Attach: AttachRequest;
  readonly PortForward: PortForwardRequest;
  readonly GetContainerEvents: GetEventsRequest;
  readonly ListImages: ListImagesRequest;
  readonly StreamImages: StreamImagesRequest;
  readonly ImageStatus: ValidImageStatus;
  readonly PullImage: ValidPullImage;
  readonly RemoveImage: ValidRemoveImage;
  readonly ImageFsInfo: ImageFsInfoRequest;
}

export type ValidatedRpc = keyof ValidRequests;

/** The request as it comes off the wire, before validation. */
export type RawRequest<Rpc extends ValidatedRpc> = (RuntimeService & ImageService)[Rpc]["request"];
