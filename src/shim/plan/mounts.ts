/** Mounts of a container: from the CRI's mounts to Docker's `Mounts`, or `Binds` where only those can do it. */
import { ShimError } from "../../lib/errors.js";
import { MountPropagation, type Mount } from "../../domain/cri.js";
import { type DockerMount, defined, unlessEmpty } from "../../domain/create-body.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { FoundMount } from "../ports/host.js";
import { preconditionField, problemField, unsupportedField } from "../../domain/field-errors.js";
import { imageVolumeMount, type ImageVolumeSource } from "./image-volumes.js";
import { readOnlyOptionsApiMinor } from "./recursive-read-only.js";
import { visibleMounts } from "./visible-mounts.js";

export interface MountContext {
  readonly facts: NodeFacts;
  /** Host paths that could be looked at; one that is not in the map is left to the engine. */
  readonly hostPaths: ReadonlyMap<string, FoundMount> | undefined;
  /** Host paths of which no directory is made when they are missing. */
  readonly absentToReject?: ReadonlySet<string> | undefined;
  /** Where the files of image volumes are, by the index of the mount. */
  readonly imageVolumes?: ReadonlyMap<number, ImageVolumeSource> | undefined;
  /** Where other mounts of the container lie, which hide those of the request. */
  readonly laterTargets?: readonly string[];
}

/**
 * `Mounts` of type bind refuse a missing host path and know recursive read-only; `Binds` make the path as a
 * directory, and only they can relabel for SELinux. On engines without SELinux relabelling means nothing, and
 * kubelets ask for it everywhere.
 */
export function planMounts(
  mounts: readonly Mount[],
  context: MountContext,
): { readonly Mounts?: readonly DockerMount[]; readonly Binds?: readonly string[] } {
  const binds: string[] = [];
  const typed: DockerMount[] = [];
  for (const [index, mount] of visibleMounts(mounts, context.laterTargets)) {
    const field = `config.mounts[${index}]`;
    if (mount.image !== null && mount.image.image !== "") {
      typed.push(imageMount(mount, context.imageVolumes?.get(index)));
      continue;
    }
    const engineMakes = checkHostPath(mount, field, context);
    const { facts } = context;
    const relabels = mount.selinux_relabel && facts.security.selinux;
    if (relabels) checkColons(mount, field);
    if (relabels || (engineMakes && facts.apiMinor < createMountpointApiMinor && !hasColon(mount)))
      binds.push(bindText(mount, { relabels }));
    else typed.push(bindMount(mount, facts, { engineMakes }));
  }
  return defined({ Binds: unlessEmpty(binds), Mounts: unlessEmpty(typed) });
}

/** First API version in which `Mounts` can have the engine make a missing host path. */
const createMountpointApiMinor = 42;
/**
 * Whether the engine is to make the path if it is missing. Errors are preconditions: the request is sound and
 * may succeed later, and "not found" would tell a kubelet that the container or the sandbox is gone.
 */
function checkHostPath(mount: Mount, field: string, { hostPaths, absentToReject }: MountContext): boolean {
  const path = mount.host_path;
  const found = hostPaths?.get(path);
  if (found === "present" || found === "made") return false;
  const isRejected = absentToReject?.has(path) === true;
  if (typeof found === "object") throw problemField(`${field}.host_path`, found, path);
  if (found !== "missing" || !isRejected) return !isRejected;
  const reason = "no such path on the node, and --absent-mount-sources-to-reject has it";
  throw preconditionField(`${field}.host_path`, reason, path);
}

/** Nothing is mounted below an image: read-only is recursive. Relabelling it is the engine's own matter. */
function imageMount(mount: Mount, source: ImageVolumeSource | undefined): DockerMount {
  if (source === undefined)
    throw new ShimError("internal", "an image volume was not provided before planning");
  return imageVolumeMount(mount.container_path, source);
}

function bindMount(
  mount: Mount,
  facts: NodeFacts,
  { engineMakes }: { readonly engineMakes: boolean },
): DockerMount {
  const options = {
    ...propagation(mount.propagation),
    ...(engineMakes && facts.apiMinor >= createMountpointApiMinor ? { CreateMountpoint: true } : {}),
    // From this API version on the engine would make plain read-only recursive wherever it can.
    ...(mount.readonly && facts.apiMinor >= readOnlyOptionsApiMinor
      ? mount.recursive_read_only
        ? { ReadOnlyForceRecursive: true }
        : { ReadOnlyNonRecursive: true }
      : {}),
  };
  return {
    Type: "bind",
    Source: mount.host_path,
    Target: mount.container_path,
    ...(mount.readonly ? { ReadOnly: true } : {}),
    ...(Object.keys(options).length === 0 ? {} : { BindOptions: options }),
  };
}

/** PRIVATE says nothing: the engine's default is rprivate, but around its own root, where it must be rslave. */
function propagation(mode: MountPropagation): { readonly Propagation?: string } {
  switch (mode) {
    case MountPropagation.PROPAGATION_PRIVATE:
      return {};
    case MountPropagation.PROPAGATION_HOST_TO_CONTAINER:
      return { Propagation: "rslave" };
    case MountPropagation.PROPAGATION_BIDIRECTIONAL:
      return { Propagation: "rshared" };
  }
}

function hasColon({ host_path, container_path }: Mount): boolean {
  return host_path.includes(":") || container_path.includes(":");
}

function checkColons(mount: Mount, field: string): void {
  for (const [name, path] of [
    ["host_path", mount.host_path],
    ["container_path", mount.container_path],
  ] as const) {
    if (path.includes(":")) {
      throw unsupportedField(
        `${field}.${name}`,
        "Docker cannot relabel a path with a colon (selinux_relabel)",
        path,
      );
    }
  }
}

/** `<host>:<container>:<options>`, options in dockershim's order. */
function bindText(mount: Mount, { relabels }: { readonly relabels: boolean }): string {
  const mode = propagation(mount.propagation).Propagation;
  const options = [
    ...(mount.readonly ? ["ro"] : []),
    ...(relabels ? ["Z"] : []),
    ...(mode === undefined ? [] : [mode]),
  ];
  return [mount.host_path, mount.container_path, ...(options.length === 0 ? [] : [options.join(",")])].join(
    ":",
  );
}
