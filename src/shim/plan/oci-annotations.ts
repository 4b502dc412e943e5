/** Annotations of the OCI specification of a container, which containerd's shim and the OCI runtime act upon. */
import { type HostConfig, scopePropertyPrefix } from "../../domain/create-body.js";
import type { Labels } from "../../domain/labels.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { SandboxConfig, ValidCreateContainer } from "../../domain/requests.js";
import { runtimeKind } from "./runtime-handler.js";

/** First API version with annotations in the create body: Docker Engine 24. */
const annotationsApiMinor = 43;

export function engineTakesAnnotations({ apiMinor }: Pick<NodeFacts, "apiMinor">): boolean {
  return apiMinor >= annotationsApiMinor;
}

/** containerd's shim of runc: containers of one value share a process; one without it is alone. */
const shimGroup = "io.containerd.runc.v2.group";
/** containerd's shims of runc, gVisor and Kata group by it, too; the latter two join this sandbox. */
const sandboxId = "io.kubernetes.cri.sandbox-id";
const typeOfContainer = "io.kubernetes.cri.container-type";

/** They decide to which pod a container belongs: those of a request would reach into pods of others. */
const reserved: ReadonlySet<string> = new Set([
  shimGroup,
  sandboxId,
  typeOfContainer,
  // CRI-O's, which gVisor and Kata know, too.
  "io.kubernetes.cri-o.ContainerType",
  "io.kubernetes.cri-o.SandboxID",
  // dockershim's, which Kata knows, too.
  "io.kubernetes.docker.type",
  "io.kubernetes.sandbox.id",
]);

/** What `sources` have under keys that begin with an allowed prefix; the later source wins. */
export function allowedAnnotations(sources: readonly Labels[], prefixes: readonly string[]): Labels {
  const allowed = sources
    .flatMap((source) => Object.entries(source))
    .filter(([key]) => !reserved.has(key) && prefixes.some((prefix) => key.startsWith(prefix)));
  return Object.fromEntries(allowed);
}

/** `undefined` where there are none, or where the engine knows none. */
export function annotationsField(annotations: Labels, facts: NodeFacts): HostConfig["Annotations"] {
  return engineTakesAnnotations(facts) && Object.keys(annotations).length > 0 ? annotations : undefined;
}

/**
 * By these gVisor and Kata make a sandbox for the pod. Both of them, and containerd's shims, know the sandbox
 * by the id of its container. None for other runtimes: runc knows no pods, and gVisor's runsc, started by
 * containerd's shim of runc, joins a sandbox and the engine's start never ends. `runtime` is Docker's name;
 * `""` is the engine's default.
 */
export function sandboxAnnotations(config: SandboxConfig, runtime: string, facts: NodeFacts): Labels {
  if (runtimeKind(runtime, facts) !== "ownShim") return {};
  return { [typeOfContainer]: "sandbox", ...podAnnotations(config) };
}

/**
 * By these the container is part of its pod for the OCI runtime or, with runc, for containerd: the shim
 * process of a sandbox is found by the id of its container, whichever program made that. `sandbox` has the
 * container's runtime.
 */
export function containerAnnotations(
  { config, sandbox_config }: ValidCreateContainer,
  sandbox: { readonly id: string; readonly runtime: string },
  {
    facts,
    oneContainerdShimPerPod,
  }: { readonly facts: NodeFacts; readonly oneContainerdShimPerPod: boolean },
): Labels {
  const kind = runtimeKind(sandbox.runtime, facts);
  if (kind === "runc" && oneContainerdShimPerPod) return { [shimGroup]: sandbox.id };
  if (kind !== "ownShim") return {};
  return {
    [typeOfContainer]: "container",
    [sandboxId]: sandbox.id,
    "io.kubernetes.cri.container-name": config.metadata.name,
    "io.kubernetes.cri.image-name": config.image.image,
    ...podAnnotations(sandbox_config),
  };
}

/** gVisor: names of the pod in its metrics, and the pod's volumes by the log directory. */
function podAnnotations({ metadata, log_directory }: SandboxConfig): Labels {
  return {
    "io.kubernetes.cri.sandbox-name": metadata.name,
    "io.kubernetes.cri.sandbox-namespace": metadata.namespace,
    "io.kubernetes.cri.sandbox-uid": metadata.uid,
    "io.kubernetes.cri.sandbox-log-directory": log_directory,
  };
}

/**
 * With systemd's cgroup driver each container is a scope, which systemd stops with a timeout of its own (90 s
 * unless configured) when it stops the scope or its slice. runc and crun read this as a property of the
 * scope, in microseconds.
 */
export function stopTimeoutProperty(graceSeconds: number | undefined, facts: NodeFacts): Labels {
  if (graceSeconds === undefined || facts.cgroupDriver !== "systemd") return {};
  return { [`${scopePropertyPrefix}TimeoutStopUSec`]: `uint64 ${graceSeconds}000000` };
}
