/** volumes and volumeMounts → directories to prepare and CRI mounts. */
import { posix } from "node:path";
import { ShimError } from "../../shim/lib/errors.js";
import { type Answer, type Mount, MountPropagation } from "../../shim/domain/cri.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import type { VolumeImages } from "./images.js";
import type { PodKey } from "../manifests/read-manifests.js";
import { type Directories, emptyDirPath } from "./pod-files.js";

export type HostPathType =
  "" | "DirectoryOrCreate" | "Directory" | "FileOrCreate" | "File" | "Socket" | "CharDevice" | "BlockDevice";

/** Files and directories that a pod's containers need before they start. */
export type VolumePreparation =
  | { readonly kind: "emptyDir"; readonly path: string; readonly group: number | undefined }
  | { readonly kind: "hostPath"; readonly path: string; readonly type: HostPathType };

/** A volume with a path on the node. Image volumes have none. */
interface PlannedVolume {
  readonly name: string;
  readonly preparation: VolumePreparation;
}

function plannedVolumes(spec: PodSpec, key: PodKey, directories: Directories): readonly PlannedVolume[] {
  const ofNode = (spec.volumes ?? []).filter(({ image }) => image === undefined);
  return ofNode.map(({ name, hostPath }) => {
    if (hostPath !== undefined) {
      const preparation = {
        kind: "hostPath",
        path: posix.resolve(hostPath.path),
        type: hostPath.type ?? "",
      } as const;
      return { name, preparation };
    }
    // In Kubernetes, a volume without a source is an emptyDir.
    const path = emptyDirPath(directories, key, name);
    return { name, preparation: { kind: "emptyDir", path, group: spec.securityContext?.fsGroup } };
  });
}

export function volumePreparations(
  spec: PodSpec,
  key: PodKey,
  directories: Directories,
): readonly VolumePreparation[] {
  return plannedVolumes(spec, key, directories).map(({ preparation }) => preparation);
}

/**
 * A mount of a volume. `subPath` is empty for the volume's root and for image volumes; the CRI resolves
 * theirs.
 */
export interface PlannedMount {
  /** Empty for an image volume. */
  readonly volumePath: string;
  readonly subPath: string;
  readonly mount: Answer<Mount>;
}

const propagations = {
  None: MountPropagation.PROPAGATION_PRIVATE,
  HostToContainer: MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
  Bidirectional: MountPropagation.PROPAGATION_BIDIRECTIONAL,
} as const;

/**
 * The volume mounts of a container. With a sub path, `mount.host_path` is the path of the volume:
 * create-container.ts resolves the sub path just before the creation, because containers may make links.
 */
export function volumeMounts(
  container: Container,
  spec: PodSpec,
  key: PodKey,
  directories: Directories,
  node: { readonly seLinux: boolean },
  images: VolumeImages,
): readonly PlannedMount[] {
  const volumes = new Map(
    plannedVolumes(spec, key, directories).map((volume) => [volume.name, volume.preparation]),
  );
  return (container.volumeMounts ?? []).map((mount) => {
    const container_path = posix.resolve("/", mount.mountPath);
    const image = images.get(mount.name);
    if (image !== undefined) {
      // As in Kubernetes, readOnly has no effect here.
      const imageMount = { container_path, image, image_sub_path: mount.subPath ?? "", readonly: true };
      return { volumePath: "", subPath: "", mount: imageMount };
    }
    const volume = volumes.get(mount.name);
    if (volume === undefined) throw new ShimError("internal", `volume "${mount.name}" was not checked`);
    return {
      volumePath: volume.path,
      subPath: mount.subPath ?? "",
      mount: {
        container_path,
        host_path: volume.path,
        readonly: mount.readOnly ?? false,
        recursive_read_only: mount.recursiveReadOnly === "Enabled",
        propagation: propagations[mount.mountPropagation ?? "None"],
        // Paths of the node keep their labels, which the node's own programs may need.
        selinux_relabel: node.seLinux && volume.kind === "emptyDir",
      },
    };
  });
}
