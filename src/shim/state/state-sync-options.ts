import type { BackoffTimes } from "../../lib/sync/backoff.js";

export interface StateSyncOptions {
  /** Interval of full comparisons with the engine's list, because events can be lost. */
  readonly resyncIntervalMs: number;
  /** Limit of one inspect. */
  readonly inspectTimeoutMs: number;
  /** First pause before a failed inspect is tried again; it doubles up to `resyncIntervalMs`. */
  readonly retryMs: number;
  /** How long a comparison waits for one inspect, which then ends in the background. */
  readonly inspectWaitMs: number;
  /** How long the first inspect of a container may take before the engine's list is asked about it. */
  readonly firstInspectMs: number;
  readonly connectTimeoutMs: number;
  /** Pauses between attempts to reach a lost engine. */
  readonly reconnectMs: BackoffTimes;
}

export const defaultStateSyncOptions: StateSyncOptions = {
  resyncIntervalMs: 30_000,
  inspectTimeoutMs: 30_000,
  retryMs: 500,
  inspectWaitMs: 1_000,
  firstInspectMs: 100,
  connectTimeoutMs: 30_000,
  reconnectMs: { first: 100, longest: 3_000 },
};
