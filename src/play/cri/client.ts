/**
 * The CRI calls that `play` makes, and a client that makes them over gRPC on a unix socket (`runtime.v1`).
 */
import { type CallOptions, connectCri, type CriConnection } from "../../client/cri-connection.js";
import { ShimError, isKind } from "../../lib/errors.js";
import { CgroupDriver } from "../../domain/cri.js";
import type {
  Answer,
  AuthConfig,
  Container,
  ContainerConfig,
  ContainerEventResponse,
  ContainerStats,
  ContainerStatus,
  ExecRequest,
  ExecSyncResponse,
  Image,
  PodSandbox,
  PodSandboxConfig,
  PodSandboxStatus,
  StatusResponse,
  VersionResponse,
} from "../../domain/cri.js";

export type CgroupDriverName = "cgroupfs" | "systemd";

type Labels = Readonly<Record<string, string>>;

/**
 * Each call ends by its own deadline or with `signal`. Errors are ShimErrors; an unknown id is `notFound`
 * where the CRI makes it an error, and success for stop and remove.
 */
export interface CriClient {
  version(signal: AbortSignal): Promise<VersionResponse>;
  /** With `info`: what the server adds to its status, by name; the values are mostly JSON. */
  status(signal: AbortSignal): Promise<StatusResponse>;
  /** Undefined for servers that do not report it. */
  cgroupDriver(signal: AbortSignal): Promise<CgroupDriverName | undefined>;
  /** The image under that name or id, when it is on the node. */
  imageStatus(image: string, signal: AbortSignal): Promise<Image | undefined>;
  /** Answers the id. Has no deadline: the server gives up a pull that makes no progress. */
  pullImage(
    image: string,
    sandbox: Answer<PodSandboxConfig>,
    signal: AbortSignal,
    auth?: Answer<AuthConfig>,
  ): Promise<string>;
  runPodSandbox(
    config: Answer<PodSandboxConfig>,
    runtimeHandler: string,
    signal: AbortSignal,
  ): Promise<string>;
  podSandboxStatus(id: string, signal: AbortSignal): Promise<PodSandboxStatus>;
  /** What the server adds to the status, by name; the values are mostly JSON. */
  podSandboxInfo(id: string, signal: AbortSignal): Promise<Readonly<Record<string, string>>>;
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
  listContainerStats(sandboxId: string, signal: AbortSignal): Promise<readonly ContainerStats[]>;
  /** Rejects with kind `timeout` when the command has not ended after `timeoutSeconds` (0: no limit). */
  execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    signal: AbortSignal,
  ): Promise<ExecSyncResponse>;
  /** Answers the URL of the stream, as do `attachUrl` and `portForwardUrl`. */
  execUrl(request: ExecRequest, signal: AbortSignal): Promise<string>;
  attachUrl(request: Omit<ExecRequest, "cmd">, signal: AbortSignal): Promise<string>;
  portForwardUrl(sandboxId: string, ports: readonly number[], signal: AbortSignal): Promise<string>;
  /** Rejects with kind `unsupported` on servers without events. */
  containerEvents(signal: AbortSignal): AsyncIterable<ContainerEventResponse>;
}

/** The kubelet's limits: two minutes for a call, twice that for RunPodSandbox. */
const callTimeoutMs = 120_000;
const runPodSandboxTimeoutMs = 240_000;

export interface ConnectedClient extends CriClient {
  close(): void;
}

/** Nothing is sent before the first call. `endpoint`: `unix:///path` or an absolute path. */
export function connect(endpoint: string): ConnectedClient {
  const connection = connectCri(endpoint);
  const call: CriConnection["call"] = async (name, request, options: CallOptions) => {
    try {
      return await connection.call(name, request, options);
    } catch (error) {
      if (!isUnserved(error)) throw error;
      throw new ShimError("unavailable", `${error.message}; start dockershim first`, {}, { cause: error });
    }
  };
  return {
    close: () => {
      connection.close();
    },
    version: (signal) => call("Version", { version: "v1" }, { signal }),
    imageStatus: async (image, signal) =>
      (await call("ImageStatus", { image: { image } }, { signal })).image ?? undefined,
    status: (signal) => call("Status", { verbose: true }, { signal }),
    cgroupDriver: async (signal) => {
      try {
        const { linux } = await call("RuntimeConfig", {}, { signal });
        if (linux === null) return undefined;
        return linux.cgroup_driver === CgroupDriver.SYSTEMD ? "systemd" : "cgroupfs";
      } catch (error) {
        if (isKind(error, "unsupported")) return undefined;
        throw error;
      }
    },
    pullImage: async (image, sandbox, signal, auth) => {
      const spec = { image, user_specified_image: image };
      const request = { image: spec, sandbox_config: sandbox, ...(auth === undefined ? {} : { auth }) };
      return (await call("PullImage", request, { signal, timeoutMs: Infinity })).image_ref;
    },
    runPodSandbox: async (config, runtimeHandler, signal) => {
      const request = { config, runtime_handler: runtimeHandler };
      const options = { signal, timeoutMs: runPodSandboxTimeoutMs };
      return (await call("RunPodSandbox", request, options)).pod_sandbox_id;
    },
    podSandboxStatus: async (id, signal) => {
      const answer = await call("PodSandboxStatus", { pod_sandbox_id: id }, { signal });
      return present(answer.status, "PodSandboxStatus");
    },
    podSandboxInfo: async (id, signal) =>
      (await call("PodSandboxStatus", { pod_sandbox_id: id, verbose: true }, { signal })).info,
    listPodSandboxes: async (labels, signal) =>
      (await call("ListPodSandbox", { filter: { label_selector: labels } }, { signal })).items,
    stopPodSandbox: async (id, signal) => {
      await call("StopPodSandbox", { pod_sandbox_id: id }, { signal });
    },
    removePodSandbox: async (id, signal) => {
      await call("RemovePodSandbox", { pod_sandbox_id: id }, { signal });
    },
    createContainer: async (sandboxId, config, sandbox, signal) => {
      const request = { pod_sandbox_id: sandboxId, config, sandbox_config: sandbox };
      return (await call("CreateContainer", request, { signal })).container_id;
    },
    startContainer: async (id, signal) => {
      await call("StartContainer", { container_id: id }, { signal });
    },
    containerStatus: async (id, signal) => {
      const answer = await call("ContainerStatus", { container_id: id }, { signal });
      return present(answer.status, "ContainerStatus");
    },
    listContainers: async (sandboxId, signal) =>
      (await call("ListContainers", { filter: { pod_sandbox_id: sandboxId } }, { signal })).containers,
    stopContainer: async (id, graceSeconds, signal) => {
      const request = { container_id: id, timeout: String(graceSeconds) };
      await call("StopContainer", request, { signal, timeoutMs: callTimeoutMs + graceSeconds * 1000 });
    },
    removeContainer: async (id, signal) => {
      await call("RemoveContainer", { container_id: id }, { signal });
    },
    listContainerStats: async (sandboxId, signal) =>
      (await call("ListContainerStats", { filter: { pod_sandbox_id: sandboxId } }, { signal })).stats,
    execSync: (id, command, timeoutSeconds, signal) => {
      const request = { container_id: id, cmd: command, timeout: String(timeoutSeconds) };
      const timeoutMs = timeoutSeconds === 0 ? Infinity : callTimeoutMs + timeoutSeconds * 1000;
      return call("ExecSync", request, { signal, timeoutMs });
    },
    execUrl: async (request, signal) => (await call("Exec", request, { signal })).url,
    attachUrl: async (request, signal) => (await call("Attach", request, { signal })).url,
    portForwardUrl: async (sandboxId, ports, signal) =>
      (await call("PortForward", { pod_sandbox_id: sandboxId, port: ports }, { signal })).url,
    containerEvents: (signal) => connection.stream("GetContainerEvents", {}, signal),
  };
}

/** Whether the call failed because no server listens on the socket. */
function isUnserved(error: unknown): error is ShimError {
  return (
    error instanceof ShimError && error.kind === "unavailable" && error.message.startsWith("connect to ")
  );
}

function present<T>(value: T | null, rpc: string): T {
  if (value === null) throw new ShimError("unknown", `${rpc}: the answer has no status`);
  return value;
}
