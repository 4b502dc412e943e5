/** Events of pods, with the reasons of the kubelet. */
import type { PodKey } from "../manifests/read-manifests.js";

export interface PodEvent {
  readonly key: PodKey;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly type: "Normal" | "Warning";
  /** `Pulled`, `Created`, `BackOff`, `Unhealthy` … */
  readonly reason: string;
  readonly message: string;
  /** None for an event of the pod. */
  readonly container?: string;
  /** When the step that the event ends began, in milliseconds since 1970. */
  readonly startedAt?: number;
}

export type EventSink = (
  type: PodEvent["type"],
  reason: string,
  message: string,
  container?: string,
  startedAt?: number,
) => void;
