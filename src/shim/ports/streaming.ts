/**
 * The streaming server as the RPCs see it: Exec, Attach and PortForward describe a session, the client opens it under
 * the URL of its offer. Implemented by src/shim/streaming, which knows SPDY and WebSocket and nothing of containers;
 * what a session does is in rpc/exec.ts, rpc/attach.ts and rpc/port-forward.ts, which know nothing of protocols.
 */
import type { Duplex, Readable, Writable } from "node:stream";

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** What the client opened. A stream that was not asked for is undefined. All of them push back on a fast writer. */
export interface CommandStreams {
  /** Ends when the client half-closes. */
  readonly stdin: Readable | undefined;
  /** `end()` tells the client the end of this stream alone. */
  readonly stdout: Writable | undefined;
  readonly stderr: Writable | undefined;
  /** Ends with the session; ends at once without a tty. Only the latest size counts: older ones may be left out. */
  readonly resizes: AsyncIterable<TerminalSize>;
}

/** One exec or attach, opened by at most one client. */
export interface CommandSession {
  readonly kind: "exec" | "attach";
  readonly containerId: string;
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
  /**
   * Runs to the end of the process, or of what was attached to, and returns its exit code (0 for an attach). `signal`
   * aborts when the client is gone or idle for too long; what was started is then ended before this settles. Throws a
   * ShimError, whose message the client shows.
   */
  run(streams: CommandStreams, signal: AbortSignal): Promise<number>;
}

/** Any number of connections to ports of one pod. */
export interface PortForwardSession {
  readonly kind: "portForward";
  readonly sandboxId: string;
  /** Ports of the request, in its order: old WebSocket clients number their channels by it. Empty with SPDY clients. */
  readonly ports: readonly number[];
  /**
   * A connection to `port` on the pod's loopback, half-closable in both directions; destroying it resets it. Throws
   * `unavailable` when nothing listens there. `signal` ends the attempt, not the connection.
   */
  connect(port: number, signal: AbortSignal): Promise<Duplex>;
}

export type StreamingSession = CommandSession | PortForwardSession;

export interface StreamingServer {
  /** Absolute URL that opens the session, once and within a minute. Throws `exhausted` when too many are open. */
  offer(session: StreamingSession): string;
}
