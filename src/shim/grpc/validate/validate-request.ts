/**
 * The checks of requests, by RPC. Each returns the request, narrowed, or throws: `invalid`, or `unsupported`
 * for what Docker cannot express; the message names the field.
 */
import { ContainerState, PodSandboxState } from "../../../domain/cri.js";
import type { RawRequest, ValidRequests } from "../../../domain/requests.js";
import { containerLogPath, climbs } from "../../plan/paths.js";
import { podResources } from "../../plan/resources.js";
import { invalidField } from "../../../domain/field-errors.js";
import { containerConfig } from "./container-config.js";
import {
  absolutePath,
  argument,
  at,
  cidr,
  enumValue,
  int64,
  integer,
  isEmptyMessage,
  notEmpty,
  program,
  programSize,
  withoutWindows,
} from "./fields.js";
import { imageName, pullReference } from "./images.js";
import { containerResources } from "./resources.js";
import { sandboxConfig } from "./sandbox-config.js";

const portNumbers = { min: 1n, max: 65_535n };

/** For requests that need no check of their own. */
export function anyRequest<Request>(request: Request): Request {
  return request;
}

export function validUpdateRuntimeConfig(
  request: RawRequest<"UpdateRuntimeConfig">,
): ValidRequests["UpdateRuntimeConfig"] {
  const cidrs = request.runtime_config?.network_config?.pod_cidr ?? "";
  if (cidrs !== "") {
    for (const one of cidrs.split(",")) cidr("runtime_config.network_config.pod_cidr", one.trim());
  }
  return request;
}

export function validRunPodSandbox(request: RawRequest<"RunPodSandbox">): ValidRequests["RunPodSandbox"] {
  return { ...request, config: sandboxConfig("config", request.config) };
}

export function validCreateContainer(
  request: RawRequest<"CreateContainer">,
): ValidRequests["CreateContainer"] {
  withSandboxId(request);
  const config = containerConfig(request.config);
  const sandbox_config = sandboxConfig("sandbox_config", request.sandbox_config);
  containerLogPath(sandbox_config.log_directory, config.log_path); // Stays inside.
  return { ...request, config, sandbox_config };
}

export function validStopContainer(request: RawRequest<"StopContainer">): ValidRequests["StopContainer"] {
  // Kubelets up to 1.21 pass a negative --eviction-max-pod-grace-period on, and the API server takes every
  // grace period; see stopTimeoutSeconds for what they do.
  integer("timeout", request.timeout, int64);
  return withContainerId(request);
}

export function validUpdateContainerResources(
  request: RawRequest<"UpdateContainerResources">,
): ValidRequests["UpdateContainerResources"] {
  withContainerId(request);
  withoutWindows("windows", request.windows);
  if (request.linux !== null) containerResources("linux", request.linux);
  return request;
}

export function validCheckpointContainer(
  request: RawRequest<"CheckpointContainer">,
): ValidRequests["CheckpointContainer"] {
  absolutePath("location", request.location);
  if (climbs(request.location)) throw invalidField("location", 'has a ".." part', request.location);
  integer("timeout", request.timeout, { min: 0n, max: int64.max });
  return withContainerId(request);
}

export function validUpdatePodSandboxResources(
  request: RawRequest<"UpdatePodSandboxResources">,
): ValidRequests["UpdatePodSandboxResources"] {
  podResources(request, ""); // Not too large.
  return withSandboxId(request);
}

export function validExecSync(request: RawRequest<"ExecSync">): ValidRequests["ExecSync"] {
  withContainerId(request);
  command("cmd", request.cmd);
  integer("timeout", request.timeout, int64);
  return request;
}

export function validExec(request: RawRequest<"Exec">): ValidRequests["Exec"] {
  command("cmd", request.cmd);
  return withStreams(request);
}

export function validPortForward(request: RawRequest<"PortForward">): ValidRequests["PortForward"] {
  withSandboxId(request);
  // SPDY clients name their ports later, and kubelets send none here.
  request.port.forEach((port, index) => {
    integer(at("port", index), String(port), portNumbers);
  });
  return request;
}

export function validImageStatus(request: RawRequest<"ImageStatus">): ValidRequests["ImageStatus"] {
  return { ...request, image: imageName("image", request.image) };
}

export function validPullImage(request: RawRequest<"PullImage">): ValidRequests["PullImage"] {
  return { ...request, image: pullReference("image", request.image) };
}

export function validRemoveImage(request: RawRequest<"RemoveImage">): ValidRequests["RemoveImage"] {
  return { ...request, image: imageName("image", request.image) };
}

/** An argument that the kernel does not take, or no program, hangs the engine's exec and its container. */
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
  program(at(field, 0), words[0] ?? "");
}

/** Without an empty filter: a filter without members is none. */
export function withFilter<Request extends { readonly filter: object | null }>(request: Request): Request {
  const { filter } = request;
  return filter !== null && isEmptyMessage(filter) ? { ...request, filter: null } : request;
}

export function withSandboxState<Request extends Pick<RawRequest<"ListPodSandbox">, "filter">>(
  request: Request,
): Request {
  const state = request.filter?.state ?? null;
  if (state !== null) enumValue("filter.state.state", state.state, PodSandboxState);
  return withFilter(request);
}

export function withContainerState<Request extends Pick<RawRequest<"ListContainers">, "filter">>(
  request: Request,
): Request {
  const state = request.filter?.state ?? null;
  if (state !== null) enumValue("filter.state.state", state.state, ContainerState);
  return withFilter(request);
}

export function withSandboxId<Request extends { readonly pod_sandbox_id: string }>(
  request: Request,
): Request {
  notEmpty("pod_sandbox_id", request.pod_sandbox_id);
  return request;
}

export function withStreams<
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

export function withContainerId<Request extends { readonly container_id: string }>(
  request: Request,
): Request {
  notEmpty("container_id", request.container_id);
  return request;
}
