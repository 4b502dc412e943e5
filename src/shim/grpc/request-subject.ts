/** Ids, names and images of a request: nothing else of it may reach the log. */
import { withoutCredentials } from "../../domain/image-reference.js";

/** Standard log keys of a request's subject. */
export interface RequestSubject {
  /** `namespace/name` */
  readonly pod?: string;
  readonly sandboxId?: string;
  readonly containerId?: string;
  /** Name of the container that is to be created. */
  readonly container?: string;
  readonly image?: string;
}

/** As decoded, before validation. */
interface PodConfig {
  readonly metadata: { readonly namespace: string; readonly name: string } | null;
}

const longestFieldCharacters = 256;
const nothing: RequestSubject = {};

export function ofNothing(): RequestSubject {
  return nothing;
}

/** Subject of RPCs that are not implemented: their calls are logged, too. */
export function ofUnimplemented(request: object): RequestSubject {
  const { pod_sandbox_id = "", config = null } = request as {
    pod_sandbox_id?: string;
    config?: PodConfig | null;
  };
  return { ...podOf(config), ...field("sandboxId", pod_sandbox_id) };
}

export function ofSandbox(request: { readonly pod_sandbox_id: string }): RequestSubject {
  return field("sandboxId", request.pod_sandbox_id);
}

export function ofContainer(request: { readonly container_id: string }): RequestSubject {
  return field("containerId", request.container_id);
}

export function ofPod(request: { readonly config: PodConfig | null }): RequestSubject {
  return podOf(request.config);
}

export function ofNewContainer(request: {
  readonly pod_sandbox_id: string;
  readonly config: { readonly metadata: { readonly name: string } | null } | null;
  readonly sandbox_config: PodConfig | null;
}): RequestSubject {
  return {
    ...podOf(request.sandbox_config),
    ...ofSandbox(request),
    ...field("container", request.config?.metadata?.name),
  };
}

export function ofImage(request: {
  readonly image: { readonly image: string } | null;
  readonly sandbox_config?: PodConfig | null;
}): RequestSubject {
  return {
    ...podOf(request.sandbox_config ?? null),
    ...field("image", withoutCredentials(request.image?.image ?? "")),
  };
}

function podOf(config: PodConfig | null): RequestSubject {
  const { namespace = "", name = "" } = config?.metadata ?? {};
  return namespace === "" || name === "" ? nothing : { pod: `${cut(namespace)}/${cut(name)}` };
}

function field(key: keyof RequestSubject, text = ""): RequestSubject {
  return text === "" ? nothing : { [key]: cut(text) };
}

function cut(text: string): string {
  return text.slice(0, longestFieldCharacters);
}
