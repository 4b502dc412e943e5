/**
 * Connections to what listens inside a pod. Implemented by src/shim/pod-dialer; which way is taken is decided once per
 * engine connection, and where one way turns out to be closed.
 */
import type { Duplex } from "node:stream";
import type { Snapshot } from "../domain/snapshot.js";

export interface PodDialer {
  /**
   * A connection to `port` (1 to 65535) on the loopback of the sandbox: 127.0.0.1, or ::1 when that fails. Both directions
   * end on their own; destroying it resets it. `signal` ends the attempt, not the connection. Throws `unavailable` when
   * nothing listens there or the helper failed, `timeout`, and `unsupported` when there is no way into this pod.
   */
  connect(sandbox: Snapshot, port: number, signal: AbortSignal): Promise<Duplex>;
}
