/** One connection of a port-forward: the client's streams on one side, a connection to the pod on the other. */
import type { Duplex, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { linkAbort, withDeadline } from "../lib/abort.js";
import { messageOf } from "../lib/errors.js";
import type { PortForwardSession } from "../ports/streaming.js";
import { clientGone } from "./client-connection.js";

const connectTimeoutMs = 30_000;

/** What the client opened for one connection. */
export interface PortStreams {
  readonly port: number;
  readonly data: Duplex;
  /** Tells the client why there is no connection. Clients wait for its end before they close their own connection. */
  readonly error: Writable;
}

/**
 * Connects and copies until both directions have ended, each at its own time. A refused port is a message; whoever
 * breaks an established connection breaks the other side's, without a message, because clients end the whole
 * port-forward at one. The error stream ends with the direction from the pod: nothing can be on it any more, and kubectl
 * before 1.32 shows the end of the pod's data only then. Never rejects. `signal` ends everything at once.
 */
export async function forwardConnection(
  session: PortForwardSession,
  streams: PortStreams,
  signal: AbortSignal,
): Promise<void> {
  const { port, data, error } = streams;
  const gone = new AbortController();
  const abort = (): void => gone.abort(clientGone());
  using _ = linkAbort(signal, abort);
  data.once("close", abort);
  if (data.destroyed) abort();
  try {
    const pod = await withDeadline(
      gone.signal,
      connectTimeoutMs,
      `connect to port ${String(port)}`,
      (limit) => session.connect(port, limit),
    );
    // From here on the copy notices; a stream that has closed in order may have left bytes that are still on their way.
    data.off("close", abort);
    await copyBothWays(data, pod, gone.signal, () => void error.end());
  } catch (reason) {
    if (gone.signal.aborted) {
      data.destroy();
    } else {
      error.end(refusalOf(session, port, reason));
      data.end();
      data.resume();
    }
  } finally {
    data.off("close", abort);
  }
}

/** dockershim's words, the missing uid included. */
export function refusalOf({ sandboxId }: PortForwardSession, port: number, error: unknown): string {
  return `error forwarding port ${String(port)} to pod ${sandboxId}, uid : ${messageOf(error)}`;
}

/** Never rejects. Both streams are destroyed when either of them breaks. `onPodEnd`: `data` has been given its end. */
async function copyBothWays(
  data: Duplex,
  pod: Duplex,
  signal: AbortSignal,
  onPodEnd: () => void,
): Promise<void> {
  const end = (): void => {
    data.destroy();
    pod.destroy();
  };
  for (const stream of [data, pod]) stream.on("error", end);
  using _ = linkAbort(signal, end);
  // Each passes its own end on and leaves the other direction alone; a failure ends both.
  await Promise.allSettled([pipeline(data, pod), pipeline(pod, data).then(onPodEnd)]);
  pod.destroy();
}
