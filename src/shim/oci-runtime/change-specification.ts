/** The OCI specification that Docker wrote, with what its API has no words for: a function of values. */
import type { OciChanges } from "../../domain/oci-changes.js";
import { ShimError } from "../../lib/errors.js";
import { isList, isObject, type Json, type JsonObject } from "../../lib/json/exact-json.js";

/** File names of cgroup v2 → values. */
export type UnifiedLimits = Readonly<Record<string, string>>;

/**
 * Everything that the changes do not name stays as it is, also what this program does not know. Throws
 * `precondition` where the specification has no place for a change: the container must not start without it.
 */
export function changeSpecification(
  specification: JsonObject,
  changes: OciChanges,
  unified: UnifiedLimits,
): JsonObject {
  const changed = withMountOptions(
    withAmbientCapabilities(specification, changes.ambientCapabilities ?? []),
    changes.mountOptions ?? {},
  );
  return changes.limits === true ? withUnified(changed, unified) : changed;
}

/** The kernel keeps ambient capabilities only where they are permitted and inheritable. */
function withAmbientCapabilities(specification: JsonObject, names: readonly string[]): JsonObject {
  if (names.length === 0) return specification;
  return changedAt(specification, ["process", "capabilities"], (capabilities) => {
    const sets = ["bounding", "permitted", "effective", "inheritable", "ambient"];
    return {
      ...capabilities,
      ...Object.fromEntries(sets.map((set) => [set, [...new Set([...listAt(capabilities, set), ...names])]])),
    };
  });
}

function withMountOptions(
  specification: JsonObject,
  options: Readonly<Record<string, readonly string[]>>,
): JsonObject {
  const missing = new Set(Object.keys(options));
  if (missing.size === 0) return specification;
  const mounts = listAt(specification, "mounts").map((mount) => {
    const path = isObject(mount) ? mount["destination"] : undefined;
    if (!isObject(mount) || typeof path !== "string" || !missing.delete(path)) return mount;
    return { ...mount, options: [...listAt(mount, "options"), ...(options[path] ?? [])] };
  });
  if (missing.size > 0)
    throw new ShimError("precondition", `Docker made no mount at ${JSON.stringify([...missing][0])}`);
  return { ...specification, mounts };
}

function withUnified(specification: JsonObject, unified: UnifiedLimits): JsonObject {
  return changedAt(specification, ["linux", "resources", "unified"], (present) => ({
    ...present,
    ...unified,
  }));
}

/** What is missing on the way is made. */
function changedAt(
  object: JsonObject,
  [key, ...rest]: readonly string[],
  change: (object: JsonObject) => JsonObject,
): JsonObject {
  if (key === undefined) return change(object);
  const member = object[key];
  return { ...object, [key]: changedAt(isObject(member) ? member : {}, rest, change) };
}

function listAt(object: JsonObject, key: string): readonly Json[] {
  const value = object[key];
  return isList(value) ? value : [];
}
