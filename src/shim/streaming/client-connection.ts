/** The client's connection over any protocol, and how long a session may use it. */
import { formatDuration, linkAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";

export interface ClientConnection {
  /** Resolves when either side has ended the connection, or it is broken. Never rejects. */
  readonly closed: Promise<void>;
  /** The client's protocol error, when that ended the connection. */
  readonly failure: ShimError | undefined;
  /** `performance.now()` of the last traffic in either direction. */
  readonly lastActivityMs: number;
  /** Ends at once, with all its streams. */
  destroy(): void;
}

/** While reading is paused, data sent at this interval detects a disconnected client. */
export const probeIntervalMs = 1_000;

/** How long a session whose signal has aborted keeps the connection, to send the reason. */
const closeGraceMs = 10_000;

/** Timers of Node.js hold 31 bits of milliseconds. */
const longestTimerMs = 2_147_483_647;

/**
 * `work` gets a signal: the client left (`cancelled`) or broke the protocol, `idleTimeoutMs` without traffic
 * (`timeout`; 0: never), or `stop`. Waits for it, then ends the connection.
 */
export async function whileConnected<T>(
  connection: ClientConnection,
  { idleTimeoutMs, stop }: { readonly idleTimeoutMs: number; readonly stop: AbortSignal },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  const end = (reason: unknown): void => {
    if (over || controller.signal.aborted) return;
    clearTimeout(timer);
    // Also ends work that ignores the signal and waits for its streams.
    timer = setTimeout(() => {
      connection.destroy();
    }, closeGraceMs);
    controller.abort(reason);
  };
  void connection.closed.then(() => {
    end(connection.failure ?? clientGone());
  });
  using _ = linkAbort(stop, () => {
    end(stop.reason);
  });
  const watch = (): void => {
    const leftMs = connection.lastActivityMs + idleTimeoutMs - performance.now();
    if (leftMs > 0) {
      timer = setTimeout(watch, Math.min(Math.ceil(leftMs), longestTimerMs));
      timer.unref();
    } else {
      end(new ShimError("timeout", `closed after ${formatDuration(idleTimeoutMs)} without traffic`));
    }
  };
  if (idleTimeoutMs > 0 && !stop.aborted) watch();
  try {
    return await work(controller.signal);
  } finally {
    over = true;
    clearTimeout(timer);
    connection.destroy();
  }
}

export function clientGone(): ShimError {
  return new ShimError("cancelled", "the client has closed the connection");
}
