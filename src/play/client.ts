/**
 * The CRI calls that `play` makes, and a client that makes them over gRPC on a unix socket (`runtime.v1`).
 */
import { join } from "node:path";
import {
  Client,
  type ServiceClientConstructor,
  type ServiceError,
  credentials,
  loadPackageDefinition,
  status,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { linkAbort } from "../shim/lib/abort.js";
import { type ErrorKind, ShimError } from "../shim/lib/errors.js";
import { packageDirectory } from "../shim/lib/package-directory.js";
import type {
  Answer,
  Container,
  ContainerConfig,
  ContainerStatus,
  Image,
  ImageService,
  PodSandbox,
  PodSandboxConfig,
  PodSandboxStatus,
  RuntimeService,
  VersionResponse,
} from "../shim/domain/cri.js";

type Labels = Readonly<Record<string, string>>;

/**
 * Each call ends by its own deadline or with `signal`. Errors are ShimErrors; an unknown id is `notFound`
 * where the CRI makes it an error, and success for stop and remove.
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

/** The kubelet's limits: two minutes for a call, twice that for RunPodSandbox. */
const callTimeoutMs = 120_000;
const runPodSandboxTimeoutMs = 240_000;
const maxMessageBytes = 16 * 1024 * 1024;

export interface ConnectedClient extends CriClient {
  close(): void;
}

/** Nothing is sent before the first call. `endpoint`: `unix:///path` or an absolute path. */
export function connect(endpoint: string): ConnectedClient {
  const path = socketPath(endpoint);
  const options = {
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.default_authority": "localhost",
  };
  const client = new Client(`unix:${path}`, credentials.createInsecure(), options);
  const services = loadServices();
  type Services = RuntimeService & ImageService;

  const call = <Name extends keyof Services>(
    service: "RuntimeService" | "ImageService",
    name: Name,
    request: Answer<Services[Name]["request"]>,
    signal: AbortSignal,
    timeoutMs: number = callTimeoutMs,
  ): Promise<Services[Name]["response"]> =>
    new Promise((resolve, reject) => {
      const method = services[service].service[name];
      if (method === undefined) throw new ShimError("internal", `no RPC named "${name}"`);
      if (signal.aborted) {
        reject(ShimError.from(signal.reason));
        return;
      }
      const running = client.makeUnaryRequest(
        method.path,
        method.requestSerialize,
        method.responseDeserialize,
        request,
        { deadline: Date.now() + timeoutMs },
        (error, answer) => {
          link[Symbol.dispose]();
          if (error === null && answer !== undefined) {
            // This method's deserializer made the answer.
            resolve(answer as Services[Name]["response"]);
            return;
          }
          reject(signal.aborted ? ShimError.from(signal.reason) : toShimError(error, name, path));
        },
      );
      const link = linkAbort(signal, () => {
        running.cancel();
      });
    });

  const runtime = <Name extends keyof RuntimeService>(
    name: Name,
    request: Answer<Services[Name]["request"]>,
    signal: AbortSignal,
    timeoutMs: number = callTimeoutMs,
  ): Promise<Services[Name]["response"]> => call("RuntimeService", name, request, signal, timeoutMs);

  return {
    close: () => {
      client.close();
    },
    version: (signal) => runtime("Version", { version: "v1" }, signal),
    imageStatus: async (image, signal) => {
      const answer = await call("ImageService", "ImageStatus", { image: { image } }, signal);
      return answer.image ?? undefined;
    },
    pullImage: async (image, sandbox, signal) => {
      const request = { image: { image, user_specified_image: image }, sandbox_config: sandbox };
      return (await call("ImageService", "PullImage", request, signal, Infinity)).image_ref;
    },
    runPodSandbox: async (config, runtimeHandler, signal) => {
      const request = { config, runtime_handler: runtimeHandler };
      return (await runtime("RunPodSandbox", request, signal, runPodSandboxTimeoutMs)).pod_sandbox_id;
    },
    podSandboxStatus: async (id, signal) => {
      const answer = await runtime("PodSandboxStatus", { pod_sandbox_id: id }, signal);
      return present(answer.status, "PodSandboxStatus");
    },
    listPodSandboxes: async (labels, signal) =>
      (await runtime("ListPodSandbox", { filter: { label_selector: labels } }, signal)).items,
    stopPodSandbox: async (id, signal) => {
      await runtime("StopPodSandbox", { pod_sandbox_id: id }, signal);
    },
    removePodSandbox: async (id, signal) => {
      await runtime("RemovePodSandbox", { pod_sandbox_id: id }, signal);
    },
    createContainer: async (sandboxId, config, sandbox, signal) => {
      const request = { pod_sandbox_id: sandboxId, config, sandbox_config: sandbox };
      return (await runtime("CreateContainer", request, signal)).container_id;
    },
    startContainer: async (id, signal) => {
      await runtime("StartContainer", { container_id: id }, signal);
    },
    containerStatus: async (id, signal) => {
      const answer = await runtime("ContainerStatus", { container_id: id }, signal);
      return present(answer.status, "ContainerStatus");
    },
    listContainers: async (sandboxId, signal) =>
      (await runtime("ListContainers", { filter: { pod_sandbox_id: sandboxId } }, signal)).containers,
    stopContainer: async (id, graceSeconds, signal) => {
      const request = { container_id: id, timeout: String(graceSeconds) };
      await runtime("StopContainer", request, signal, callTimeoutMs + graceSeconds * 1000);
    },
    removeContainer: async (id, signal) => {
      await runtime("RemoveContainer", { container_id: id }, signal);
    },
  };
}

/** The socket of `unix:///run/x.sock` or `/run/x.sock`. */
export function socketPath(endpoint: string): string {
  const path = endpoint.startsWith("unix://") ? endpoint.slice("unix://".length) : endpoint;
  if (path.startsWith("/")) return path;
  throw new ShimError("invalid", `use endpoint "${endpoint}": must be unix:///ABSOLUTE/PATH`);
}

function present<T>(value: T | null, rpc: string): T {
  if (value === null) throw new ShimError("unknown", `${rpc}: the answer has no status`);
  return value;
}

const kinds: Partial<Record<status, ErrorKind>> = {
  [status.INVALID_ARGUMENT]: "invalid",
  [status.NOT_FOUND]: "notFound",
  [status.ALREADY_EXISTS]: "conflict",
  [status.FAILED_PRECONDITION]: "precondition",
  [status.UNIMPLEMENTED]: "unsupported",
  [status.UNAVAILABLE]: "unavailable",
  [status.DEADLINE_EXCEEDED]: "timeout",
  [status.CANCELLED]: "cancelled",
  [status.RESOURCE_EXHAUSTED]: "exhausted",
  [status.PERMISSION_DENIED]: "denied",
  [status.INTERNAL]: "internal",
};

function toShimError(error: ServiceError | null, rpc: string, path: string): ShimError {
  if (error === null) return new ShimError("unknown", `${rpc}: no answer`);
  if (
    error.code === status.UNAVAILABLE &&
    /\b(ENOENT|ECONNREFUSED|No connection established)\b/.test(error.details)
  ) {
    return new ShimError(
      "unavailable",
      `connect to "${path}": no CRI server answers there; start dockershim first`,
    );
  }
  return new ShimError(kinds[error.code] ?? "unknown", `${rpc}: ${error.details}`, {}, { cause: error });
}

interface Services {
  readonly RuntimeService: ServiceClientConstructor;
  readonly ImageService: ServiceClientConstructor;
}

function loadServices(): Services {
  const options = { keepCase: true, longs: String, defaults: true, oneofs: true };
  const loaded = loadPackageDefinition(
    loadSync(join(packageDirectory(), "proto", "runtime", "v1", "api.proto"), options),
  );
  // The .proto file, which ships with the program, declares this package with these two services.
  return (loaded as unknown as { readonly runtime: { readonly v1: Services } }).runtime.v1;
}
