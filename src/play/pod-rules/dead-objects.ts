/** What is removed of a pod while it runs: the kubelet keeps one dead container of each name. Pure. */
import type { PodSpec } from "../manifests/pod-schema.js";
import type { ObservedContainer, ObservedPod, ObservedSandbox } from "./observed-pod.js";

/** Containers that have ended, or were made and could not be started, but the newest of each name. */
export function obsoleteContainers({ containers }: ObservedPod): readonly ObservedContainer[] {
  const seen = new Set<string>();
  return containers.filter(({ name, state }) => {
    if (state !== "exited" && state !== "created") return false;
    const isObsolete = seen.has(name);
    seen.add(name);
    return isObsolete;
  });
}

/** All init containers: they run again in a new sandbox. */
export function initContainersOf(spec: PodSpec, { containers }: ObservedPod): readonly ObservedContainer[] {
  const names = new Set((spec.initContainers ?? []).map(({ name }) => name));
  return containers.filter(({ name }) => names.has(name));
}

/** Ended sandboxes without containers, but the newest. */
export function obsoleteSandboxes({ sandboxes, containers }: ObservedPod): readonly ObservedSandbox[] {
  const used = new Set(containers.map(({ sandboxId }) => sandboxId));
  return sandboxes.slice(1).filter(({ id, isReady }) => !isReady && !used.has(id));
}
