/** Pods of StatefulSets that an earlier play has made, and that run on. */
import { PodSandboxState } from "../../shim/domain/cri.js";
import type { CriClient } from "../client.js";
import { playHashAnnotation } from "../containers/cri-config.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { podHash } from "./hashes.js";

/**
 * Uids of those manifests that wait for another pod and whose pod is up already, unchanged: it needs a kubelet
 * whether the pod before it is ready or not.
 */
export async function presentPods(
  manifests: readonly Manifest[],
  client: Pick<CriClient, "listPodSandboxes">,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const waiting = manifests.filter(({ startsAfter }) => startsAfter !== undefined);
  if (waiting.length === 0) return new Set();
  const up = (await client.listPodSandboxes({}, signal)).filter(
    ({ state }) => state === PodSandboxState.SANDBOX_READY,
  );
  const hashes = new Map(up.map((pod) => [pod.metadata?.uid, pod.annotations[playHashAnnotation]]));
  return new Set(
    waiting
      .filter((manifest) => hashes.get(manifest.key.uid) === podHash(manifest))
      .map(({ key }) => key.uid),
  );
}
