/** What a turn of the loop of a pod does, from what is remembered and what is observed. Pure. */
import type { Manifest } from "../manifests/read-manifests.js";
import { podHash } from "../pod-config/hashes.js";
import type { ObservedPod } from "./observed-pod.js";
import { type PodActions, hasEndedChanged, podActions } from "./pod-actions.js";
import { type PodMemory, hasEnded, podStatus } from "./pod-status.js";
import type { ProbeResults } from "./probe-results.js";
import type { PodStatus, Waiting } from "./status-types.js";

/** What is remembered of a pod from turn to turn. */
export interface PodState extends Omit<PodMemory, "startTime"> {
  /** Milliseconds since 1970; undefined before the first turn. */
  readonly startTime?: number;
}

export interface TurnInput {
  readonly observed: ObservedPod;
  readonly probes: ProbeResults;
  /** How the pod ends or has ended, where neither its containers nor its deadline show that. */
  readonly ended: PodMemory["ended"] | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** `recreate`: the pod is deleted, and made from the manifest. */
export type Turn =
  | { readonly kind: "recreate" }
  | { readonly kind: "end"; readonly status: PodStatus; readonly isUp: boolean }
  | { readonly kind: "act"; readonly status: PodStatus; readonly actions: PodActions };

export const newPodState: PodState = { waiting: new Map() };

/** Whether the pod was made from the manifest. `foreign`: play has not made it. */
export function originOf(
  { key, ...rest }: Pick<Manifest, "pod" | "key">,
  { sandboxes }: ObservedPod,
): "foreign" | "outdated" | "current" {
  if (sandboxes.some(({ playHash }) => playHash === undefined)) return "foreign";
  const hash = podHash({ key, ...rest });
  return sandboxes.some(({ uid, playHash }) => uid !== key.uid || playHash !== hash) ? "outdated" : "current";
}

/** The turn of a pod that was made from the manifest, and what is remembered after it. */
export function nextTurn(
  manifest: Manifest,
  state: PodState,
  { observed, probes, ended = state.ended, now }: TurnInput,
): { readonly state: PodMemory; readonly turn: Turn } {
  const { spec } = manifest.pod;
  const oldest = observed.sandboxes.at(-1);
  const startTime = state.startTime ?? (oldest === undefined ? now : Number(oldest.createdAt / 1_000_000n));
  const memory = { ...state, startTime, ...(ended === undefined ? {} : { ended }) };
  const status = podStatus(manifest, observed, probes, memory, now);
  if (hasEndedChanged(spec, observed, { hasEnded: hasEnded(status) }))
    return { state: memory, turn: { kind: "recreate" } };
  if (hasEnded(status)) {
    const isUp = observed.sandboxes.some(({ isReady }) => isReady);
    return { state: { ...memory, ended: status }, turn: { kind: "end", status, isUp } };
  }
  return { state: memory, turn: { kind: "act", status, actions: podActions(manifest, observed, probes) } };
}

/** What is remembered when the manifest has changed. Another pod has not ended. */
export function changedState(state: PodState, before: Manifest, now: Manifest): PodState {
  const { ended: _, ...unended } = state;
  return { ...(podHash(before) === podHash(now) ? state : unended), waiting: new Map() };
}

/** `starts`: by the name of the container, why its start has failed; undefined when it has succeeded. */
export function afterStarts(state: PodMemory, starts: ReadonlyMap<string, Waiting | undefined>): PodMemory {
  const waiting = new Map(state.waiting);
  for (const [name, reason] of starts) {
    if (reason === undefined) waiting.delete(name);
    else waiting.set(name, reason);
  }
  return { ...state, waiting };
}
