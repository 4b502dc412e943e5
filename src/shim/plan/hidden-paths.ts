/** The paths of /proc and /sys that a container does not see, or only reads. */
import type { LinuxContainerSecurityContext } from "../../domain/cri.js";
import type { HostConfig } from "../../domain/create-body.js";

/**
 * A request without any path may mean an unmasked /proc (`procMount: Unmasked`), or come from a client that
 * says nothing of it. It is taken at its word in a pod with users of its own, where Kubernetes allows no other
 * pod to be unmasked. Elsewhere it gets Docker's defaults. A privileged container hides nothing in any case.
 */
export function hiddenPaths(
  security: Pick<LinuxContainerSecurityContext, "privileged" | "masked_paths" | "readonly_paths"> | null,
  { ownUsers }: { readonly ownUsers: boolean },
): Pick<HostConfig, "MaskedPaths" | "ReadonlyPaths"> {
  if (security?.privileged === true) return {};
  const { masked_paths: MaskedPaths = [], readonly_paths: ReadonlyPaths = [] } = security ?? {};
  return ownUsers || MaskedPaths.length + ReadonlyPaths.length > 0 ? { MaskedPaths, ReadonlyPaths } : {};
}
