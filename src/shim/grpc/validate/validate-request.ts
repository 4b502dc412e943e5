/**
 * The one place where requests are checked. What gets through may be used without further looks at its form; what does
 * not is INVALID_ARGUMENT, or UNIMPLEMENTED for what Docker cannot do, and the message names the field.
 */
import { ContainerState, PodSandboxState } from "../../domain/cri.js";
import type { RawRequest, ValidatedRpc, ValidRequests } from "../../domain/requests.js";
import { containerLogPath } from "../../plan/log-path.js";
import { invalidField, unsupportedField } from "../../plan/field-errors.js";
import { containerConfig } from "./container-config.js";
import { argument, at, cidr, enumValue, integer, maxInteger, notEmpty, present } from "./fields.js";
import { imageName, pullReference } from "./images.js";
import { containerResources } from "./resources.js";
import { sandboxConfig } from "./sandbox-config.js";

type Validators = { readonly [Rpc in ValidatedRpc]: (request: RawRequest<Rpc>) => ValidRequests[Rpc] };

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
  ListPodSandbox(request) {
    const state = request.filter?.state ?? null;
    if (state !== null) enumValue("filter.state.state", state.state, PodSandboxState);
    return request;
  },
  CreateContainer(request) {
    withSandboxId(request);
    const config = containerConfig(request.config);
    const sandbox_config = sandboxConfig("sandbox_config", request.sandbox_config);
    containerLogPath(sandbox_config.log_directory, config.log_path); // Stays inside.
    return { ...request, config, sandbox_config };
  },
  StartContainer: withContainerId,
  StopContainer(request) {
    // Docker would wait without end for a negative number, other runtimes kill at once: nobody can mean one of them.
    integer("timeout", request.timeout, seconds);
    return withContainerId(request);
  },
  RemoveContainer: withContainerId,
  ListContainers(request) {
    const state = request.filter?.state ?? null;
    if (state !== null) enumValue("filter.state.state", state.state, ContainerState);
    return request;
  },
  ContainerStatus: withContainerId,
  UpdateContainerResources(request) {
    withContainerId(request);
    if (request.windows !== null) throw unsupportedField("windows", "this is a runtime for Linux containers");
    const linux = present("linux", request.linux);
    containerResources("linux", linux);
    return { ...request, linux };
  },
  ExecSync(request) {
    withContainerId(request);
    command("cmd", request.cmd);
    integer("timeout", request.timeout, seconds);
    return request;
  },
  ListImages: asItIs,
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
  notEmpty(at(field, 0), words[0] ?? "");
}

function asItIs<Request>(request: Request): Request {
  return request;
}

function withSandboxId<Request extends { readonly pod_sandbox_id: string }>(request: Request): Request {
  notEmpty("pod_sandbox_id", request.pod_sandbox_id);
  return request;
}

function withContainerId<Request extends { readonly container_id: string }>(request: Request): Request {
  notEmpty("container_id", request.container_id);
  return request;
}
