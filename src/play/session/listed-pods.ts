/** What the sandboxes of the server tell of pods that are to be played. */
import { type PodSandbox, PodSandboxState } from "../../domain/cri.js";
import { ShimError } from "../../lib/errors.js";
import { playHashAnnotation } from "../pod-config/cri-config.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { podHash } from "../pod-config/hashes.js";

/** Uids of manifests that wait for another pod, and whose pod is up, unchanged. `listed`: all sandboxes. */
export function presentPods(
  manifests: readonly Manifest[],
  listed: readonly PodSandbox[],
): ReadonlySet<string> {
  const waiting = manifests.filter(({ startsAfter }) => startsAfter !== undefined);
  const up = listed.filter(({ state }) => state === PodSandboxState.SANDBOX_READY);
  const hashes = new Map(up.map((pod) => [pod.metadata?.uid, pod.annotations[playHashAnnotation]]));
  return new Set(
    waiting
      .filter((manifest) => hashes.get(manifest.key.uid) === podHash(manifest))
      .map(({ key }) => key.uid),
  );
}

/** Throws `conflict` for a uid that a pod of another name has: they would share files. `listed`: all sandboxes. */
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
