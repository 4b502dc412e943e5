/**
 * Connections to services inside a pod. Implemented by src/shim/pod-dialer; the implementation is chosen once
 * per engine connection, with a fallback.
 */
import type { Duplex } from "node:stream";
import type { Snapshot } from "../../domain/snapshot.js";

export interface PodDialer {
  /**
   * A connection to `port` (1 to 65535) on the loopback of the sandbox: 127.0.0.1, or ::1 when that fails.
   * Each direction ends by itself; destroying the stream resets the connection. `signal` ends the attempt,
   * not the connection. Throws `unavailable` when nothing listens there or the helper failed, `timeout`, and
   * `unsupported` when this implementation cannot reach the pod.
   */
  connect(sandbox: Snapshot, port: number, signal: AbortSignal): Promise<Duplex>;
}
