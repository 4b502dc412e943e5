/** Pods of StatefulSets that an earlier play has made, and that run on. */
import { type PodSandbox, PodSandboxState } from "../../domain/cri.js";
import { playHashAnnotation } from "../pod-config/cri-config.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { podHash } from "../pod-config/hashes.js";

/**
 * Uids of those manifests that wait for another pod and whose pod is up already, unchanged: it needs a kubelet
 * whether the pod before it is ready or not. `listed`: all sandboxes of the server.
 */
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
