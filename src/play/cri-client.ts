/** The CRI calls that `play` makes, as an interface: the decisions and their order are tested without a server. */
import type {
  Answer,
  Container,
  ContainerConfig,
  ContainerStatus,
  Image,
  PodSandbox,
  PodSandboxConfig,
  PodSandboxStatus,
  VersionResponse,
} from "../shim/domain/cri.js";

type Labels = Readonly<Record<string, string>>;

/**
 * Each call ends by its own deadline or with `signal`. Errors are ShimErrors; an unknown id is `notFound` where the
 * CRI makes it an error, and success for stop and remove.
 */
export interface CriClient {
  version(signal: AbortSignal): Promise<VersionResponse>;
  /** The image under that name or id, when it is on the node. */
  imageStatus(image: string, signal: AbortSignal): Promise<Image | undefined>;
  /** Answers the id. Has no deadline: the server gives up a pull that makes no progress. */
  pullImage(image: string, sandbox: Answer<PodSandboxConfig>, signal: AbortSignal): Promise<string>;
  runPodSandbox(
    config: Answer<PodSandboxConfig>,
    runtimeHandler: string,
    signal: AbortSignal,
  ): Promise<string>;
  podSandboxStatus(id: string, signal: AbortSignal): Promise<PodSandboxStatus>;
  listPodSandboxes(labels: Labels, signal: AbortSignal): Promise<readonly PodSandbox[]>;
  stopPodSandbox(id: string, signal: AbortSignal): Promise<void>;
  removePodSandbox(id: string, signal: AbortSignal): Promise<void>;
  createContainer(
    sandboxId: string,
    config: Answer<ContainerConfig>,
    sandbox: Answer<PodSandboxConfig>,
    signal: AbortSignal,
  ): Promise<string>;
  startContainer(id: string, signal: AbortSignal): Promise<void>;
  containerStatus(id: string, signal: AbortSignal): Promise<ContainerStatus>;
  listContainers(sandboxId: string, signal: AbortSignal): Promise<readonly Container[]>;
  stopContainer(id: string, graceSeconds: number, signal: AbortSignal): Promise<void>;
  removeContainer(id: string, signal: AbortSignal): Promise<void>;
}
