/**
 * The one place where requests are checked. What gets through may be used without further looks at its form; what does
 * not is INVALID_ARGUMENT, or UNIMPLEMENTED for what Docker cannot do, and the message names the field.
 */
import { ContainerState, PodSandboxState } from "../../domain/cri.js";
import type { RawRequest, ValidatedRpc, ValidRequests } from "../../domain/requests.js";
import { containerLogPath, climbs } from "../../plan/paths.js";
import { podResources } from "../../plan/resources.js";
import { invalidField, unsupportedField } from "../../domain/field-errors.js";
import { checkBounds } from "./bounds.js";
import { containerConfig } from "./container-config.js";
import {
  absolutePath,
  argument,
  at,
  cidr,
  enumValue,
  integer,
  maxInteger,
  notEmpty,
  present,
  programSize,
} from "./fields.js";
import { imageName, pullReference } from "./images.js";
import { containerResources } from "./resources.js";
import { sandboxConfig } from "./sandbox-config.js";

type Validators = { readonly [Rpc in ValidatedRpc]: (request: RawRequest<Rpc>) => ValidRequests[Rpc] };

const portNumbers = { min: 1n, max: 65_535n };
const seconds = { min: 0n, max: maxInteger };

const validators: Validators = {
  Version: asItIs,
  Status: asItIs,
  RuntimeConfig: asItIs,
  UpdateRuntimeConfig(request) {
    const cidrs = request.runtime_config?.network_config?.pod_cidr ?? "";
    if (cidrs !== "") {
      for (const one of cidrs.split(",")) cidr("runtime_config.network_config.pod_cidr", one.trim());
    }
    return request;
  },
  RunPodSandbox: (request) => ({ ...request, config: sandboxConfig("config", request.config) }),
  StopPodSandbox: withSandboxId,
  RemovePodSandbox: withSandboxId,
  PodSandboxStatus: withSandboxId,
  ListPodSandbox: withSandboxState,
  StreamPodSandboxes: withSandboxState,
  CreateContainer(request) {
    withSandboxId(request);
    const config = containerConfig(request.config);
    const sandbox_config = sandboxConfig("sandbox_config", request.sandbox_config);
    containerLogPath(sandbox_config.log_directory, config.log_path); // Stays inside.
    return { ...request, config, sandbox_config };
  },
  StartContainer: withContainerId,
  StopContainer(request) {
    // Kubelets up to 1.21 pass a negative --eviction-max-pod-grace-period on; see stopTimeoutSeconds for what it does.
    integer("timeout", request.timeout, { min: -maxInteger, max: maxInteger });
    return withContainerId(request);
  },
  RemoveContainer: withContainerId,
  ListContainers: withContainerState,
  StreamContainers: withContainerState,
  ContainerStatus: withContainerId,
  UpdateContainerResources(request) {
    withContainerId(request);
    if (request.windows !== null) throw unsupportedField("windows", "this is a runtime for Linux containers");
    const linux = present("linux", request.linux);
    containerResources("linux", linux);
    return { ...request, linux };
  },
  CheckpointContainer(request) {
    absolutePath("location", request.location);
    if (climbs(request.location)) throw invalidField("location", 'has a ".." part', request.location);
    // A timer cannot be longer.
    integer("timeout", request.timeout, { min: 0n, max: 2_147_483n });
    return withContainerId(request);
  },
  UpdatePodSandboxResources(request) {
    podResources(request, ""); // Not too large.
    return withSandboxId(request);
  },
  ContainerStats: withContainerId,
  ListContainerStats: asItIs,
  PodSandboxStats: withSandboxId,
  ListPodSandboxStats: asItIs,
  StreamContainerStats: asItIs,
  StreamPodSandboxStats: asItIs,
  StreamPodSandboxMetrics: asItIs,
  ListMetricDescriptors: asItIs,
  ListPodSandboxMetrics: asItIs,
  ReopenContainerLog: withContainerId,
  ExecSync(request) {
    withContainerId(request);
    command("cmd", request.cmd);
    integer("timeout", request.timeout, seconds);
    return request;
  },
  Exec(request) {
    command("cmd", request.cmd);
    return withStreams(request);
  },
  Attach: withStreams,
  PortForward(request) {
    withSandboxId(request);
    // SPDY clients name their ports later, and kubelets send none here.
    request.port.forEach((port, index) => {
      integer(at("port", index), String(port), portNumbers);
    });
    return request;
  },
  GetContainerEvents: asItIs,
  ListImages: asItIs,
  StreamImages: asItIs,
  ImageStatus: (request) => ({ ...request, image: imageName("image", request.image) }),
  PullImage: (request) => ({ ...request, image: pullReference("image", request.image) }),
  RemoveImage: (request) => ({ ...request, image: imageName("image", request.image) }),
  ImageFsInfo: asItIs,
};

/** The request, narrowed. Throws a ShimError: `invalid`, or `unsupported` for what Docker cannot express. */
export function validateRequest<Rpc extends ValidatedRpc>(
  rpc: Rpc,
  request: RawRequest<Rpc>,
): ValidRequests[Rpc] {
  checkBounds(request);
  const validate: (request: RawRequest<Rpc>) => ValidRequests[Rpc] = validators[rpc];
  return validate(request);
}

/** Whether requests of this RPC have a validator. */
export function isValidatedRpc(rpc: string): rpc is ValidatedRpc {
  return Object.hasOwn(validators, rpc);
}

/** One argument that the kernel does not take hangs the engine's exec for good, and with it the whole container. */
function command(field: string, words: readonly string[]): void {
  if (words.length === 0) throw invalidField(field, "must not be empty");
  words.forEach((entry, index) => {
    argument(at(field, index), entry);
  });
  programSize(
    field,
    words.map((entry) => Buffer.byteLength(entry)),
  );
  notEmpty(at(field, 0), words[0] ?? "");
}

function asItIs<Request>(request: Request): Request {
  return request;
}

function withSandboxState<Request extends Pick<RawRequest<"ListPodSandbox">, "filter">>(
  request: Request,
): Request {
  const state = request.filter?.state ?? null;
  if (state !== null) enumValue("filter.state.state", state.state, PodSandboxState);
  return request;
}

function withContainerState<Request extends Pick<RawRequest<"ListContainers">, "filter">>(
  request: Request,
): Request {
  const state = request.filter?.state ?? null;
  if (state !== null) enumValue("filter.state.state", state.state, ContainerState);
  return request;
}

function withSandboxId<Request extends { readonly pod_sandbox_id: string }>(request: Request): Request {
  notEmpty("pod_sandbox_id", request.pod_sandbox_id);
  return request;
}

function withStreams<
  Request extends {
    readonly container_id: string;
    readonly tty: boolean;
    readonly stdin: boolean;
    readonly stdout: boolean;
    readonly stderr: boolean;
  },
>(request: Request): Request {
  withContainerId(request);
  // A terminal has one stream for both.
  if (request.tty && request.stderr) throw invalidField("stderr", "must not be set together with tty");
  if (!request.stdin && !request.stdout && !request.stderr)
    throw invalidField("stdin", "one of stdin, stdout and stderr must be set");
  return request;
}

function withContainerId<Request extends { readonly container_id: string }>(request: Request): Request {
  notEmpty("container_id", request.container_id);
  return request;
}
