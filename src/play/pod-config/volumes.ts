/** volumes and volumeMounts → what to prepare on the engine's host, and CRI mounts. Pure. */
import { posix } from "node:path";
import { ShimError } from "../../lib/errors.js";
import { parseQuantity } from "../../domain/quantity.js";
import { type Answer, type ImageSpec, type Mount, MountPropagation } from "../../domain/cri.js";
import { relativePath } from "../manifests/names.js";
import type { PodSpec, Volume, VolumeMount } from "../manifests/pod-schema.js";
import { type Variables, expandVariables } from "./expand-variables.js";
import type { PodFacts } from "./pod-fields.js";
import { type Directories, claimPath, volumePath } from "./pod-paths.js";
import { type PodContainer, podMemoryLimit } from "./resources.js";
import { type VolumeFiles, volumeFiles } from "./volume-files.js";

/** The images of volumes, by the name of the volume. */
export type VolumeImages = ReadonlyMap<string, Answer<ImageSpec>>;

export type HostPathType =
  "" | "DirectoryOrCreate" | "Directory" | "FileOrCreate" | "File" | "Socket" | "CharDevice" | "BlockDevice";

/** Files and directories that a pod's containers need before they start. */
export type VolumePreparation =
  | {
      readonly kind: "emptyDir";
      readonly path: string;
      readonly group: number | undefined;
      /** Size of a file system in memory; undefined for one on disk. */
      readonly memoryBytes: bigint | undefined;
    }
  | { readonly kind: "hostPath"; readonly path: string; readonly type: HostPathType }
  /** Files of the pod's objects. They are replaced all at once. */
  | {
      readonly kind: "files";
      readonly path: string;
      readonly group: number | undefined;
      readonly memoryBytes: bigint | undefined;
      readonly files: VolumeFiles;
      /** Paths in it on which containers mount other volumes. */
      readonly mountPoints: readonly string[];
    }
  /** A directory that outlives the pod. */
  | {
      readonly kind: "claim";
      readonly path: string;
      readonly group: number | undefined;
      /** Whether a root that already belongs to the group proves that all below does. */
      readonly trustRoot: boolean;
      /** `namespace/name` */
      readonly claim: string;
    };

/** All volumes of the pod that have a path on the node; image volumes have none. */
export function volumePreparations(facts: PodFacts, directories: Directories): readonly VolumePreparation[] {
  const { volumes = [] } = facts.manifest.pod.spec;
  return volumes
    .filter(({ image }) => image === undefined)
    .map((volume) => volumePreparation(volume, facts, directories));
}

function volumePreparation(volume: Volume, facts: PodFacts, directories: Directories): VolumePreparation {
  const { key, pod } = facts.manifest;
  const { fsGroup: group, fsGroupChangePolicy } = pod.spec.securityContext ?? {};
  const path = hostPathOf(volume, facts, directories);
  if (volume.hostPath !== undefined) return { kind: "hostPath", path, type: volume.hostPath.type ?? "" };
  if (volume.persistentVolumeClaim !== undefined)
    return {
      kind: "claim",
      path,
      group,
      trustRoot: fsGroupChangePolicy === "OnRootMismatch",
      claim: `${key.namespace}/${volume.persistentVolumeClaim.claimName}`,
    };
  const files = volumeFiles(volume, facts);
  if (files === undefined) {
    // In Kubernetes, a volume without a source is an emptyDir.
    const inMemory = volume.emptyDir?.medium === "Memory";
    return { kind: "emptyDir", path, group, memoryBytes: inMemory ? memoryOf(volume, facts) : undefined };
  }
  for (const name of files.keys()) checkVolumeFile(name, `${key.namespace}/${key.name}`, volume.name);
  // As in the kubelet, only ConfigMaps are on disk.
  const memoryBytes = volume.configMap === undefined ? memoryOf(volume, facts) : undefined;
  const mountPoints = nestedMountPoints(volume.name, pod.spec);
  return { kind: "files", path, group, memoryBytes, files, mountPoints };
}

/** Mount points below one of play's read-only files, without those below another one of them. */
function nestedMountPoints(name: string, spec: PodSpec): readonly string[] {
  const { containers, initContainers = [], ephemeralContainers = [] } = spec;
  const found = [...initContainers, ...containers, ...ephemeralContainers].flatMap(
    ({ volumeMounts = [] }) => {
      const paths = volumeMounts.map(({ mountPath }) => posix.resolve("/", mountPath));
      return volumeMounts.flatMap((mount, index) => {
        const outer = paths[index] ?? "";
        if (mount.name !== name || isOfPart(mount)) return [];
        const below = paths.filter((path) => path.startsWith(`${outer}/`));
        const nearest = below.filter((path) => !below.some((other) => path.startsWith(`${other}/`)));
        return nearest.map((path) => posix.relative(outer, path));
      });
    },
  );
  return [...new Set(found)];
}

function isOfPart({ subPath = "", subPathExpr = "" }: VolumeMount): boolean {
  return subPath !== "" || subPathExpr !== "";
}

/** Keys were checked as names. This protects the node from a mistake there. */
function checkVolumeFile(name: string, pod: string, volume: string): void {
  const isBad = name === "" || relativePath(name) !== undefined || name.startsWith("..");
  if (isBad || name.includes("\0"))
    throw new ShimError(
      "invalid",
      `fill volume "${volume}" of pod "${pod}": "${name}" is not the path of a file`,
    );
}

/** The smallest of sizeLimit, the memory limit of the pod and what the node can give. */
function memoryOf({ emptyDir }: Volume, { manifest, node }: PodFacts): bigint {
  const limits = [
    parseQuantity(node.allocatable["memory"] ?? "", 1),
    podMemoryLimit(manifest.pod.spec),
    parseQuantity(emptyDir?.sizeLimit ?? "", 1),
  ];
  return limits.reduce<bigint>(
    (least, limit = 0n) => (limit > 0n && limit < least ? limit : least),
    node.memoryBytes,
  );
}

function hostPathOf(volume: Volume, { manifest }: PodFacts, directories: Directories): string {
  const { hostPath, persistentVolumeClaim } = volume;
  if (hostPath !== undefined) return posix.resolve(hostPath.path);
  if (persistentVolumeClaim !== undefined)
    return claimPath(directories, manifest.key.namespace, persistentVolumeClaim.claimName);
  return volumePath(directories, manifest.key, kindOf(volume), volume.name);
}

function kindOf({ configMap, secret, downwardAPI, projected }: Volume): string {
  if (configMap !== undefined) return "config-map";
  if (secret !== undefined) return "secret";
  if (downwardAPI !== undefined) return "downward-api";
  return projected === undefined ? emptyDirKind : "projected";
}

/** For `volumePath`. */
export const emptyDirKind = "empty-dir";

/** A mount of a volume. */
export interface PlannedMount {
  /** Empty for an image volume. */
  readonly volumePath: string;
  /** Empty for the volume's root and for image volumes, whose sub paths the CRI resolves. */
  readonly subPath: string;
  /** Where the sub path is mounted for the container. */
  readonly subPathTarget: string;
  readonly mount: Answer<Mount>;
}

const propagations = {
  None: MountPropagation.PROPAGATION_PRIVATE,
  HostToContainer: MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
  Bidirectional: MountPropagation.PROPAGATION_BIDIRECTIONAL,
} as const;

export interface VolumeMountsInput extends PodFacts {
  readonly container: PodContainer;
  readonly directories: Directories;
  readonly images: VolumeImages;
  /** The container's environment, for subPathExpr. */
  readonly environment: Variables;
  /** Whether the pod's runtime handler makes mounts below a mount read-only, too. */
  readonly recursiveReadOnly: boolean;
}

/** The volume mounts of a container. Sub paths are mounted just before its creation. */
export function volumeMounts(input: VolumeMountsInput): readonly PlannedMount[] {
  const { container, manifest, directories, images, node } = input;
  const volumes = new Map((manifest.pod.spec.volumes ?? []).map((volume) => [volume.name, volume]));
  return (container.volumeMounts ?? []).map((mount, index) => {
    const container_path = posix.resolve("/", mount.mountPath);
    const subPath = subPathOf(mount, input.environment);
    const image = images.get(mount.name);
    if (image !== undefined) {
      // As in Kubernetes, readOnly has no effect here.
      const imageMount = { container_path, image, image_sub_path: subPath, readonly: true };
      return { volumePath: "", subPath: "", subPathTarget: "", mount: imageMount };
    }
    const volume = volumes.get(mount.name);
    if (volume === undefined) throw new ShimError("internal", `volume "${mount.name}" was not checked`);
    const path = hostPathOf(volume, input, directories);
    return {
      volumePath: path,
      subPath,
      subPathTarget: volumePath(
        directories,
        manifest.key,
        "sub-paths",
        posix.join(mount.name, container.name, String(index)),
      ),
      mount: {
        container_path,
        host_path: path,
        readonly: (mount.readOnly ?? false) || isReadOnly(volume),
        recursive_read_only: isRecursive(mount, input.recursiveReadOnly),
        propagation: propagations[mount.mountPropagation ?? "None"],
        // Paths of the node keep their labels, which the node's own programs may need.
        selinux_relabel: node.seLinux && volume.hostPath === undefined,
      },
    };
  });
}

/** Files of objects belong to play, which replaces them. */
function isReadOnly(volume: Volume): boolean {
  const { configMap, secret, downwardAPI, projected, persistentVolumeClaim } = volume;
  const ofObjects = configMap ?? secret ?? downwardAPI ?? projected;
  return ofObjects !== undefined || persistentVolumeClaim?.readOnly === true;
}

function isRecursive(mount: VolumeMount, isSupported: boolean): boolean {
  const { recursiveReadOnly = "Disabled", readOnly = false, mountPropagation = "None" } = mount;
  if (recursiveReadOnly === "IfPossible") return isSupported && readOnly && mountPropagation === "None";
  if (recursiveReadOnly === "Enabled" && !isSupported) {
    const reason = "the runtime handler does not support recursiveReadOnly: write IfPossible";
    throw new ShimError("unsupported", `mount volume "${mount.name}": ${reason}`);
  }
  return recursiveReadOnly === "Enabled";
}

function subPathOf({ name, subPath = "", subPathExpr = "" }: VolumeMount, environment: Variables): string {
  if (subPathExpr === "") return subPath;
  const action = `mount subPathExpr "${subPathExpr}" of volume "${name}"`;
  const missing: string[] = [];
  const path = expandVariables(subPathExpr, {
    get: (variable) => {
      const value = environment.get(variable);
      if (value === undefined) missing.push(variable);
      return value;
    },
  });
  if (missing.length > 0)
    throw new ShimError("invalid", `${action}: the container has no variable "${missing.join('", "')}"`);
  const problem = relativePath(path);
  if (problem !== undefined) throw new ShimError("invalid", `${action}: "${path}" ${problem}`);
  return path;
}
