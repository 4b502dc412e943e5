/** The CRI calls that `play` makes, and a client that makes them over gRPC on a unix socket (`runtime.v1`). */
import { type CallOptions, connectCri, type CriConnection } from "../../client/cri-connection.js";
import { ShimError, unlessKind } from "../../lib/errors.js";
import { CgroupDriver } from "../../domain/cri.js";
import type {
  Answer,
  AuthConfig,
  Container,
  ContainerConfig,
  ContainerStats,
  ExecRequest,
  Image,
  PodSandbox,
  PodSandboxConfig,
} from "../../domain/cri.js";

export type CgroupDriverName = "cgroupfs" | "systemd";

type Labels = Readonly<Record<string, string>>;

/** The kubelet's limits: two minutes for a call, twice that for RunPodSandbox. */
const callTimeoutMs = 120_000;
const runPodSandboxTimeoutMs = 240_000;

/** Without its end, which is for its owner. */
export type CriClient = Omit<ConnectedClient, "close">;
export type ConnectedClient = ReturnType<typeof connect>;

/**
 * Nothing is sent before the first call. `endpoint`: `unix:///path` or an absolute path.
 *
 * Each call ends by its own deadline or with `signal`. Errors are ShimErrors; an unknown id is `notFound`
 * where the CRI makes it an error, and success for stop and remove.
 */
export function connect(endpoint: string) {
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
    close: (): void => connection.close(),
    version: (signal: AbortSignal) => call("Version", { version: "v1" }, { signal }),
    /** With `info`: what the server adds to its status, by name; the values are mostly JSON. */
    status: (signal: AbortSignal) => call("Status", { verbose: true }, { signal }),
    /** Undefined for servers that do not report it. */
    cgroupDriver: async (signal: AbortSignal): Promise<CgroupDriverName | undefined> => {
      const found = await call("RuntimeConfig", {}, { signal }).catch(unlessKind("unsupported"));
      const linux = found?.linux ?? undefined;
      return linux && (linux.cgroup_driver === CgroupDriver.SYSTEMD ? "systemd" : "cgroupfs");
    },
    /** The image under that name or id, when it is on the node. */
    imageStatus: async (image: string, signal: AbortSignal): Promise<Image | undefined> =>
      (await call("ImageStatus", { image: { image } }, { signal })).image ?? undefined,
    /** Answers the id. Has no deadline: the server gives up a pull that makes no progress. */
    pullImage: async (
      image: string,
      sandbox: Answer<PodSandboxConfig>,
      signal: AbortSignal,
      auth?: Answer<AuthConfig>,
    ): Promise<string> => {
      const spec = { image, user_specified_image: image };
      const request = { image: spec, sandbox_config: sandbox, ...(auth === undefined ? {} : { auth }) };
      return (await call("PullImage", request, { signal, timeoutMs: Infinity })).image_ref;
    },
    runPodSandbox: async (config: Answer<PodSandboxConfig>, handler: string, signal: AbortSignal) => {
      const options = { signal, timeoutMs: runPodSandboxTimeoutMs };
      return (await call("RunPodSandbox", { config, runtime_handler: handler }, options)).pod_sandbox_id;
    },
    podSandboxStatus: async (id: string, signal: AbortSignal) =>
      present(
        (await call("PodSandboxStatus", { pod_sandbox_id: id }, { signal })).status,
        "PodSandboxStatus",
      ),
    /** What the server adds to the status, by name; the values are mostly JSON. */
    podSandboxInfo: async (id: string, signal: AbortSignal): Promise<Readonly<Record<string, string>>> =>
      (await call("PodSandboxStatus", { pod_sandbox_id: id, verbose: true }, { signal })).info,
    listPodSandboxes: async (labels: Labels, signal: AbortSignal): Promise<readonly PodSandbox[]> =>
      (await call("ListPodSandbox", { filter: { label_selector: labels } }, { signal })).items,
    stopPodSandbox: async (id: string, signal: AbortSignal): Promise<void> => {
      await call("StopPodSandbox", { pod_sandbox_id: id }, { signal });
    },
    removePodSandbox: async (id: string, signal: AbortSignal): Promise<void> => {
      await call("RemovePodSandbox", { pod_sandbox_id: id }, { signal });
    },
    createContainer: async (
      sandboxId: string,
      config: Answer<ContainerConfig>,
      sandbox: Answer<PodSandboxConfig>,
      signal: AbortSignal,
    ): Promise<string> => {
      const request = { pod_sandbox_id: sandboxId, config, sandbox_config: sandbox };
      return (await call("CreateContainer", request, { signal })).container_id;
    },
    startContainer: async (id: string, signal: AbortSignal): Promise<void> => {
      await call("StartContainer", { container_id: id }, { signal });
    },
    containerStatus: async (id: string, signal: AbortSignal) =>
      present((await call("ContainerStatus", { container_id: id }, { signal })).status, "ContainerStatus"),
    listContainers: async (sandboxId: string, signal: AbortSignal): Promise<readonly Container[]> =>
      (await call("ListContainers", { filter: { pod_sandbox_id: sandboxId } }, { signal })).containers,
    stopContainer: async (id: string, graceSeconds: number, signal: AbortSignal): Promise<void> => {
      const request = { container_id: id, timeout: String(graceSeconds) };
      await call("StopContainer", request, { signal, timeoutMs: callTimeoutMs + graceSeconds * 1000 });
    },
    removeContainer: async (id: string, signal: AbortSignal): Promise<void> => {
      await call("RemoveContainer", { container_id: id }, { signal });
    },
    listContainerStats: async (sandboxId: string, signal: AbortSignal): Promise<readonly ContainerStats[]> =>
      (await call("ListContainerStats", { filter: { pod_sandbox_id: sandboxId } }, { signal })).stats,
    /** Rejects with kind `timeout` when the command has not ended after `timeoutSeconds` (0: no limit). */
    execSync: (id: string, command: readonly string[], timeoutSeconds: number, signal: AbortSignal) => {
      const request = { container_id: id, cmd: command, timeout: String(timeoutSeconds) };
      const timeoutMs = timeoutSeconds === 0 ? Infinity : callTimeoutMs + timeoutSeconds * 1000;
      return call("ExecSync", request, { signal, timeoutMs });
    },
    /** Answers the URL of the stream, as do `attachUrl` and `portForwardUrl`. */
    execUrl: async (request: ExecRequest, signal: AbortSignal) =>
      (await call("Exec", request, { signal })).url,
    attachUrl: async (request: Omit<ExecRequest, "cmd">, signal: AbortSignal) =>
      (await call("Attach", request, { signal })).url,
    portForwardUrl: async (sandboxId: string, ports: readonly number[], signal: AbortSignal) =>
      (await call("PortForward", { pod_sandbox_id: sandboxId, port: ports }, { signal })).url,
    /** Rejects with kind `unsupported` on servers without events. */
    containerEvents: (signal: AbortSignal) => connection.stream("GetContainerEvents", {}, signal),
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
