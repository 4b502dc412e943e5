/** User namespaces of pods: what is requested, and whether this engine can have them. */
import {
  type IDMapping,
  type Mount,
  NamespaceMode,
  type UserNamespace as RequestedUsers,
} from "../../domain/cri.js";
import { invalidField, unsupportedField } from "../../domain/field-errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { type MappedIds, ociRuntimeName, type UserNamespace } from "../../domain/oci-changes.js";
import { kernelAtLeast } from "./recursive-read-only.js";
import { runtimeFacts } from "./runtime-handler.js";

const maxId = 2 ** 32 - 1;

/** Undefined for the users of the node. Throws for a mapping that no pod can have. */
export function requestedUsers(
  options: RequestedUsers | null | undefined,
  field: string,
): UserNamespace | undefined {
  if (options === null || options === undefined) return undefined;
  const { mode, uids, gids } = options;
  if (mode === NamespaceMode.NODE) {
    if (uids.length > 0 || gids.length > 0) throw invalidField(field, "mode NODE takes no mappings");
    return undefined;
  }
  if (mode !== NamespaceMode.POD)
    throw unsupportedField(`${field}.mode`, "users are those of the node or of the pod");
  return { uids: mappedIds(uids, `${field}.uids`), gids: mappedIds(gids, `${field}.gids`) };
}

/** Undefined for a mount without mappings. */
export function mountUsers({ uidMappings, gidMappings }: Mount, field: string): UserNamespace | undefined {
  if (uidMappings.length === 0 && gidMappings.length === 0) return undefined;
  return {
    uids: mappedIds(uidMappings, `${field}.uidMappings`),
    gids: mappedIds(gidMappings, `${field}.gidMappings`),
  };
}

/** As with other runtimes: one mapping, in which root is. */
function mappedIds(mappings: readonly IDMapping[], field: string): MappedIds {
  const [mapping, ...others] = mappings;
  if (mapping === undefined || others.length > 0) throw invalidField(field, "must be one mapping");
  const { container_id, host_id, length } = mapping;
  if (container_id !== 0) throw invalidField(`${field}[0].container_id`, "must be 0", String(container_id));
  if (length === 0 || host_id + length > maxId)
    throw invalidField(`${field}[0].length`, `must be a number of ids below ${maxId}`, String(length));
  return { hostId: host_id, size: length };
}

export function isSameUsers(one: UserNamespace | undefined, other: UserNamespace | undefined): boolean {
  const textOf = (users: UserNamespace | undefined): string =>
    users === undefined ? "" : [users.uids, users.gids].map(({ hostId, size }) => `${hostId}:${size}`).join();
  return textOf(one) === textOf(other);
}

/** Why pods of the engine's default runtime cannot have user namespaces; `problem` is that of the OCI runtime. */
export function whyNoUserNamespaces(facts: NodeFacts, problem: string | undefined): string | undefined {
  const { security, storageDriver, kernelVersion } = facts;
  if (problem !== undefined) return `Docker has no user namespaces of single pods, and ${problem}`;
  if (security.rootless || security.usernsRemap) return "the engine maps the users of all containers";
  if (security.selinux) return "the root file system of a container cannot be mapped on engines with SELinux";
  if (!["overlay2", "overlayfs"].includes(storageDriver))
    return `the storage driver ${JSON.stringify(storageDriver)} has no layers that can be mapped`;
  if (!kernelAtLeast(kernelVersion, 5, 19)) return `needs Linux 5.19, the node runs ${kernelVersion}`;
  if (runtimeFacts(ociRuntimeName, facts)?.mappedMounts !== true)
    return "the engine does not say that its runc can map mounts (runc 1.2, Docker Engine 25)";
  return undefined;
}
