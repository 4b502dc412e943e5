/** Pods of one uid would share their files. */
import { ShimError } from "../../lib/errors.js";
import type { PodSandbox } from "../../domain/cri.js";
import { playHashAnnotation } from "../pod-config/cri-config.js";
import type { Manifest } from "../manifests/read-manifests.js";

/** `listed`: all sandboxes of the server. Throws `conflict` when a pod that an earlier play made has the uid of one of these, and another name. */
export function refuseSharedUids(
  manifests: readonly Pick<Manifest, "key" | "source">[],
  listed: readonly PodSandbox[],
): void {
  const byUid = new Map(manifests.map((manifest) => [manifest.key.uid, manifest]));
  for (const { metadata, annotations } of listed) {
    const { namespace = "", name = "", uid = "" } = metadata ?? {};
    const manifest = byUid.get(uid);
    if (manifest === undefined || annotations[playHashAnnotation] === undefined) continue;
    const { key, source } = manifest;
    if (key.namespace === namespace && key.name === name) continue;
    throw new ShimError(
      "conflict",
      `play pod "${key.namespace}/${key.name}" (${source}): its uid "${uid}" is that of pod "${namespace}/${name}", ` +
        `which is on the node: remove that with "dockershim pod down ${namespace}/${name}", or give another uid`,
    );
  }
}
