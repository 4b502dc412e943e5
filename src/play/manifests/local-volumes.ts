/** Volumes of storage systems as claims, which are local volumes here (`--local-volumes`). */
import { hashOf } from "./make-pod.js";
import { type Problem, isObject } from "./schema.js";
import { storageKinds } from "./volume-schema.js";

/**
 * The spec of a pod, before it is read, with claims in place of volumes of storage systems. Volumes of the same
 * storage get the same claim, so that the pods of a file share them as they would share a disk.
 */
export function withLocalVolumes(
  spec: unknown,
  path: string,
  problems: Problem[],
): { readonly spec: unknown; readonly claims: readonly string[] } {
  if (!isObject(spec) || !Array.isArray(spec["volumes"])) return { spec, claims: [] };
  const claims: string[] = [];
  const volumes = spec["volumes"].map((volume: unknown, index) => {
    const kind = isObject(volume) ? storageKinds.find((one) => isObject(volume[one])) : undefined;
    if (kind === undefined || !isObject(volume)) return volume;
    const { [kind]: storage, ...rest } = volume;
    const claimName = `local-${hashOf({ [kind]: storage }).slice(0, 10)}`;
    const reason = `is a local volume, empty at first: claim ${claimName} (--local-volumes)`;
    problems.push({ path: `${path}.volumes[${index}].${kind}`, reason, kind: "passedOver" });
    claims.push(claimName);
    return { ...rest, persistentVolumeClaim: { claimName } };
  });
  return { spec: { ...spec, volumes }, claims };
}
