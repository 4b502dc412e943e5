/** What the CRI server says that it can do. */
import type { StatusResponse } from "../../shim/domain/cri.js";
import { ShimError } from "../../shim/lib/errors.js";
import type { PodSpec } from "../manifests/pod-schema.js";

export interface ServerFeatures {
  /** Names of the runtime handlers that make mounts below a read-only mount read-only, too; "" is the default. */
  readonly recursiveReadOnly: ReadonlySet<string>;
  /** Whether groups that the image gives a user can be left out (supplementalGroupsPolicy). */
  readonly strictGroups: boolean;
}

/** Servers that name no handlers or features support nothing, as a kubelet sees it. */
export function serverFeatures({ runtime_handlers, features }: StatusResponse): ServerFeatures {
  const able = runtime_handlers.filter((handler) => handler.features?.recursive_read_only_mounts === true);
  return {
    recursiveReadOnly: new Set(able.map(({ name }) => name)),
    strictGroups: features?.supplemental_groups_policy === true,
  };
}

/** Throws an `unsupported` error that names all pods with more groups than their manifests allow. */
export function refuseUnserved(
  pods: readonly { readonly source: string; readonly pod: { readonly spec: PodSpec } }[],
  { strictGroups }: Pick<ServerFeatures, "strictGroups">,
): void {
  const strict = pods.filter(
    ({ pod }) => pod.spec.securityContext?.supplementalGroupsPolicy === "Strict" && !strictGroups,
  );
  if (strict.length === 0) return;
  const places = [...new Set(strict.map(({ source }) => source))].join(", ");
  const field = "spec.securityContext.supplementalGroupsPolicy Strict";
  throw new ShimError("unsupported", `${places}: ${field}: the CRI server cannot do it`);
}
