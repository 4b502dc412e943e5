/** What is done next when a workload has changed, by Kubernetes' limits; pods keep their names. Pure. */
import type { UpdateStrategy } from "../manifests/manifest.js";

export interface RollingPod {
  readonly name: string;
  /** `old`: made from what its workload was before. `missing`: it is not there. */
  readonly revision: "old" | "new" | "missing";
  readonly isAvailable: boolean;
  /** It is known that it is not ready, and not for a moment only: without it, nothing is lost. */
  readonly isBroken: boolean;
}

export interface RollingDecision {
  /** Names of pods that are to be made from what the workload is now. */
  readonly make: readonly string[];
  /** Names of pods to delete. */
  readonly remove: readonly string[];
  /** Nothing is left to do, and all are available. */
  readonly isOver: boolean;
}

export type Rolling = Pick<UpdateStrategy, "type" | "isOrdered" | "maxUnavailable">;

/** `pods`: by ordinal, without those that stay as they are. `staying`: those. `surge`: those that maxSurge allows. */
export function decideRolling(
  { type, isOrdered, maxUnavailable }: Rolling,
  pods: readonly RollingPod[],
  staying: readonly RollingPod[],
  surge: readonly RollingPod[],
): RollingDecision {
  const names = (some: readonly RollingPod[]): readonly string[] => some.map(({ name }) => name);
  const old = pods.filter(({ revision }) => revision === "old").reverse();
  const unfinished = pods.filter(({ revision, isAvailable }) => revision !== "new" || !isAvailable);
  const extra = surge.filter(({ revision }) => revision !== "missing");
  if (unfinished.length === 0) return { make: [], remove: names(extra), isOver: extra.length === 0 };
  if (type === "Recreate") {
    const missing = pods.filter(({ revision }) => revision === "missing");
    return old.length > 0
      ? { make: [], remove: names(old), isOver: false }
      : { make: names(missing), remove: [], isOver: false };
  }
  const allowed = Math.min(pods.length, Math.max(maxUnavailable, surge.length === 0 ? 1 : 0));
  const present = [...pods, ...staying, ...surge].filter(({ isAvailable }) => isAvailable).length;
  let budget = present - (pods.length + staying.length - allowed);
  // Those that are missing may wait for one that is broken.
  let changing = unfinished.filter(({ revision }) => revision === "new").length;
  const make = surge.slice(0, old.length).filter(({ revision }) => revision === "missing");
  const before = extra.filter(({ revision }) => revision === "old");
  // No pod counts on them.
  make.push(...before.filter(({ isAvailable }) => !isAvailable));
  const candidates = [...before.filter(({ isAvailable }) => isAvailable), ...brokenFirst(old, isOrdered)];
  for (const pod of candidates) {
    if (isOrdered && changing >= allowed) break;
    if (!pod.isBroken && (!pod.isAvailable || budget <= 0)) continue;
    if (pod.isAvailable) budget -= 1;
    changing += 1;
    make.push(pod);
  }
  return { make: names(make), remove: [], isOver: false };
}

/** In order, a pod that is not ready comes first only where the others may not. */
function brokenFirst(old: readonly RollingPod[], isOrdered: boolean): readonly RollingPod[] {
  return isOrdered
    ? old
    : [...old.filter(({ isBroken }) => isBroken), ...old.filter(({ isBroken }) => !isBroken)];
}
