/** What the CRI server says that it can do. */
import type { StatusResponse } from "../../domain/cri.js";
import { ShimError } from "../../lib/errors.js";
import type { Owner } from "../manifests/manifest.js";
import type { PodSpec, Volume } from "../manifests/pod-schema.js";
import { limitOf } from "./resources.js";

export interface ServerFeatures {
  /** Names of the runtime handlers that make mounts below a read-only mount read-only, too; "" is the default. */
  readonly recursiveReadOnly: ReadonlySet<string>;
  /** Whether groups that the image gives a user can be left out (supplementalGroupsPolicy). */
  readonly strictGroups: boolean;
  /** The least memory limit of a container. Undefined: the server has none. */
  readonly minimumMemoryBytes?: bigint;
  /** Undefined for an engine that sees this host's files. */
  readonly remote?: Mounting;
}

/** What can be mounted for containers on a remote engine. */
export interface Mounting {
  /** Why memory and sub paths cannot be; undefined when they can. */
  readonly missing: string | undefined;
}

interface PlacedPod {
  readonly source: string;
  readonly pod: { readonly spec: PodSpec };
  readonly owner?: Owner;
}

type Pods = readonly PlacedPod[];

/** Of the Docker Engine, whose other limits no manifest can pass. */
const dockerMemoryBytes = 6n * 1024n * 1024n;

/** Servers that name no handlers or features support nothing, as a kubelet sees it. */
export function serverFeatures(
  { runtime_handlers, features }: StatusResponse,
  runtimeName: string,
): ServerFeatures {
  const able = runtime_handlers.filter((handler) => handler.features?.recursive_read_only_mounts === true);
  return {
    recursiveReadOnly: new Set(able.map(({ name }) => name)),
    strictGroups: features?.supplemental_groups_policy === true,
    ...(runtimeName === "docker" ? { minimumMemoryBytes: dockerMemoryBytes } : {}),
  };
}

/** Throws an `unsupported` error that names all pods that cannot be as their manifests want them. */
export function refuseUnserved(
  pods: Pods,
  { strictGroups, minimumMemoryBytes, remote }: Omit<ServerFeatures, "recursiveReadOnly">,
): void {
  if (minimumMemoryBytes !== undefined) refuseLittleMemory(pods, minimumMemoryBytes);
  if (!strictGroups)
    refuse(
      pods,
      ({ securityContext }) => securityContext?.supplementalGroupsPolicy === "Strict",
      "spec.securityContext.supplementalGroupsPolicy Strict: the CRI server cannot do it",
    );
  if (remote === undefined) return;
  refuse(
    pods,
    (spec) => subPathVolumes(spec).some(({ hostPath }) => hostPath !== undefined),
    "subPath of a hostPath volume: the engine is elsewhere, and play sees no paths of its host; write the whole path",
  );
  refuse(
    pods,
    ({ containers, initContainers = [] }) =>
      [...containers, ...initContainers].some(({ env = [] }) =>
        env.some(({ valueFrom }) => valueFrom?.fileKeyRef !== undefined),
      ),
    "fileKeyRef: the engine is elsewhere, and play reads no files of containers there",
  );
  if (remote.missing === undefined) return;
  refuse(
    pods,
    ({ volumes = [] }) => volumes.some(({ emptyDir }) => emptyDir?.medium === "Memory"),
    `emptyDir with medium Memory: ${remote.missing}`,
  );
  refuse(
    pods,
    (spec) => subPathVolumes(spec).some((volume) => !isOfObjects(volume)),
    `subPath of a volume that a container can write to: ${remote.missing}`,
  );
}

function refuse(pods: Pods, isUnserved: (spec: PodSpec) => boolean, reason: string): void {
  const places = new Set(pods.filter(({ pod }) => isUnserved(pod.spec)).map(({ source }) => source));
  if (places.size > 0) throw new ShimError("unsupported", `${[...places].join(", ")}: ${reason}`);
}

/** The engine would refuse it only when the sandbox runs and the image is there. */
function refuseLittleMemory(pods: Pods, minimum: bigint): void {
  const lines = pods.flatMap(({ source, pod: { spec }, owner }) => {
    const fields = (["initContainers", "containers"] as const).flatMap((kind) =>
      (spec[kind] ?? []).map((container, index) => {
        const isOwn = container.resources?.limits?.["memory"] !== undefined;
        const limit = limitOf(container, spec, "memory");
        const field = `${isOwn ? `${kind}[${index}].` : ""}resources.limits.memory`;
        return limit !== undefined && limit < minimum ? field : undefined;
      }),
    );
    const at = `${source}: ${templatePath(owner)}spec`;
    return fields.flatMap((field) => (field === undefined ? [] : [`  ${at}.${field}`]));
  });
  if (lines.length === 0) return;
  const reason = `the Docker Engine takes no limit below ${minimum / 1024n ** 2n}Mi`;
  throw new ShimError("unsupported", `nothing was started: ${reason}:\n${[...new Set(lines)].join("\n")}`);
}

function templatePath(owner: Owner | undefined): string {
  if (owner === undefined) return "";
  return owner.kind === "CronJob" ? "spec.jobTemplate.spec.template." : "spec.template.";
}

function isOfObjects({ configMap, secret, downwardAPI, projected, image }: Volume): boolean {
  return [configMap, secret, downwardAPI, projected, image].some((source) => source !== undefined);
}

/** The volumes of which a container mounts a part. */
function subPathVolumes({ volumes = [], containers, initContainers = [] }: PodSpec): readonly Volume[] {
  const mounts = [...containers, ...initContainers].flatMap(({ volumeMounts = [] }) => volumeMounts);
  const names = new Set(
    mounts.filter(({ subPath, subPathExpr }) => subPath ?? subPathExpr).map(({ name }) => name),
  );
  return volumes.filter(({ name }) => names.has(name));
}
