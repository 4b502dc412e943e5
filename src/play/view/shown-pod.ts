import type { PodEvent } from "../kubelet/events.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import type { Manifest } from "../manifests/read-manifests.js";

/** A pod that play has in charge. A `PodWorker` is one. */
export interface ShownPod {
  readonly manifest: Manifest;
  /** None before the pod was looked at. */
  readonly status: PodStatus | undefined;
  /** When its deletion began, in milliseconds since 1970. */
  readonly deletedAt?: number | undefined;
  readonly lastEvent?: PodEvent | undefined;
}
