/**
 * Requests after validation: sub-messages that an RPC cannot do without are there, enums and numbers are in
 * range, names and paths are well formed. Made only by `validateRequest`; everything behind it takes these
 * types.
 */
import type {
  ContainerConfig,
  ContainerMetadata,
  CreateContainerRequest,
  CriRpcs,
  ImageSpec,
  ImageStatusRequest,
  PodSandboxConfig,
  PodSandboxMetadata,
  PullImageRequest,
  RemoveImageRequest,
  RunPodSandboxRequest,
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

/** Those of the table of RPCs. */
export type ValidatedRpc = Exclude<keyof CriRpcs, "CheckpointPod" | "RestorePod">;

/** The request as it comes off the wire, before validation. */
export type RawRequest<Rpc extends ValidatedRpc> = CriRpcs[Rpc]["request"];

interface StricterRequests {
  readonly RunPodSandbox: ValidRunPodSandbox;
  readonly CreateContainer: ValidCreateContainer;
  readonly ImageStatus: ValidImageStatus;
  readonly PullImage: ValidPullImage;
  readonly RemoveImage: ValidRemoveImage;
}

/** The validated request of each RPC, by the RPC's name. */
export type ValidRequests = {
  readonly [Rpc in ValidatedRpc]: Rpc extends keyof StricterRequests
    ? StricterRequests[Rpc]
    : RawRequest<Rpc>;
};
