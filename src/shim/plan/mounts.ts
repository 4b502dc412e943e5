/** Mounts of a container: from the CRI's mounts to Docker's `Mounts`, or `Binds` where only those can do it. */
import { ShimError } from "../base/errors.js";
import { MountPropagation, type Mount } from "../domain/cri.js";
import type { DockerMount } from "../domain/create-body.js";
import type { NodeFacts } from "../domain/node-facts.js";
import { defined, unlessEmpty } from "./defined.js";
import { preconditionField, quote, unsupportedField } from "./field-errors.js";
import { imageVolumeMount, type ImageVolumeSource } from "./image-volumes.js";
import { readOnlyOptionsApiMinor, whyNoRecursiveReadOnly } from "./recursive-read-only.js";

/** Kind of a path on the node. */
export type PathKind = "file" | "directory" | "other" | "missing";

export interface MountContext {
  readonly facts: NodeFacts;
  /** Docker runtime of the pod, as `runc`; `""` is the engine's default. */
  readonly runtime: string;
  /** Host paths that could be looked at; one that is not in the map is left to the engine's own check. */
  readonly hostPaths: ReadonlyMap<string, PathKind> | undefined;
  /** Where the files of image volumes are, by the index of the mount. */
  readonly imageVolumes?: ReadonlyMap<number, ImageVolumeSource> | undefined;
}

/**
 * `Mounts` of type bind refuse a missing host path and know recursive read-only; `Binds` would make the path as a
 * directory, but only they can relabel for SELinux. On engines without SELinux relabelling means nothing, and kubelets
 * ask for it everywhere.
 */
export function planMounts(
  mounts: readonly Mount[],
  context: MountContext,
): { readonly Mounts?: readonly DockerMount[]; readonly Binds?: readonly string[] } {
  const binds: string[] = [];
  const typed: DockerMount[] = [];
  for (const [index, mount] of mounts.entries()) {
    const field = `config.mounts[${String(index)}]`;
    if (mount.image !== null && mount.image.image !== "") {
      typed.push(imageMount(mount, context.imageVolumes?.get(index)));
      continue;
    }
    checkHostPath(mount, field, context);
    checkRecursiveReadOnly(mount, field, context);
    if (mount.selinux_relabel && context.facts.security.selinux) binds.push(bindText(mount, field));
    else typed.push(bindMount(mount, context.facts));
  }
  return defined({ Binds: unlessEmpty(binds), Mounts: unlessEmpty(typed) });
}

/** Whether Status may announce recursive read-only mounts for a Docker runtime (`""`: the default). */
export function recursiveReadOnlyMounts(facts: NodeFacts, runtime: string): boolean {
  return whyNoRecursiveReadOnly(facts, runtime) === undefined;
}

/**
 * The request is sound and may succeed later, hence a precondition; "not found" would tell a kubelet that the
 * container or the sandbox is gone.
 */
function checkHostPath(mount: Mount, field: string, { hostPaths }: MountContext): void {
  if (hostPaths?.get(mount.host_path) !== "missing") return;
  throw preconditionField(`${field}.host_path`, "no such path on the node", mount.host_path);
}

function checkRecursiveReadOnly(mount: Mount, field: string, { facts, runtime }: MountContext): void {
  if (!mount.recursive_read_only) return;
  const why =
    mount.selinux_relabel && facts.security.selinux
      ? "cannot be combined with selinux_relabel"
      : whyNoRecursiveReadOnly(facts, runtime);
  if (why === undefined) return;
  // Kubelets compare the beginning of the text.
  const subject = `${field}.recursive_read_only of ${quote(mount.container_path)}`;
  throw new ShimError("unsupported", `RROUnsupported: ${subject}: ${why}`, {
    field: `${field}.recursive_read_only`,
  });
}

/** Nothing is mounted below an image, so read-only is recursive, and relabelling an image is the engine's own matter. */
function imageMount(mount: Mount, source: ImageVolumeSource | undefined): DockerMount {
  if (source === undefined)
    throw new ShimError("internal", "an image volume was not provided before planning");
  return imageVolumeMount(mount.container_path, source);
}

function bindMount(mount: Mount, facts: NodeFacts): DockerMount {
  const options = {
    ...propagation(mount.propagation),
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

/** PRIVATE says nothing: the engine's default is rprivate, but for sources around its own root, where it must be rslave. */
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

/** `<host>:<container>:<options>`, options in dockershim's order. */
function bindText(mount: Mount, field: string): string {
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
  const mode = propagation(mount.propagation).Propagation;
  const options = [...(mount.readonly ? ["ro"] : []), "Z", ...(mode === undefined ? [] : [mode])];
  return `${mount.host_path}:${mount.container_path}:${options.join(",")}`;
}
