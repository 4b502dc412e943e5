/**
 * The streaming server as the RPCs use it: Exec, Attach and PortForward offer a session, which the client
 * opens by its URL. Implemented by src/shim/streaming, which handles SPDY and WebSocket. The RPCs in
 * src/shim/cri do not depend on these protocols.
 */
import type { Duplex, Readable, Writable } from "node:stream";

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** The client's streams, with backpressure. A stream that was not requested is undefined. */
export interface CommandStreams {
  /** Ends when the client half-closes. */
  readonly stdin: Readable | undefined;
  /** `end()` ends this stream alone. */
  readonly stdout: Writable | undefined;
  readonly stderr: Writable | undefined;
  /** Ends with the session; ends at once without a tty. Sizes before the latest one may be skipped. */
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
   * Runs to the end of the process and returns its exit code (0 for an attach). `signal` aborts when the
   * client disconnects or is idle for too long; a started process is then ended before this settles. Throws a
   * ShimError, whose message the client shows.
   */
  run(streams: CommandStreams, signal: AbortSignal): Promise<number>;
}

/** Any number of connections to ports of one pod. */
export interface PortForwardSession {
  readonly kind: "portForward";
  readonly sandboxId: string;
  /** Ports of the request, in the order of the channels of old WebSocket clients. Empty with SPDY clients. */
  readonly ports: readonly number[];
  /**
   * A connection to `port` on the pod's loopback, half-closable in both directions; destroying it resets it.
   * Throws `unavailable` when nothing listens there. `signal` ends the attempt, not the connection.
   */
  connect(port: number, signal: AbortSignal): Promise<Duplex>;
}

export type StreamingSession = CommandSession | PortForwardSession;

export interface StreamingServer {
  /** Absolute URL that opens the session, once and within a minute. Throws `exhausted` when too many are open. */
  offer(session: StreamingSession): string;
}
