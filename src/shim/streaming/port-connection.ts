/** One connection of a port-forward, from the client's streams to the pod. */
import type { Duplex, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { linkAbort, withDeadline } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import type { PortForwardSession } from "../ports/streaming.js";
import { clientGone } from "./client-connection.js";

const connectTimeoutMs = 30_000;

/** The client's streams of one connection. */
export interface PortStreams {
  readonly port: number;
  readonly data: Duplex;
  /** For the reason of a failed connect. Clients wait for its end before they close their connection. */
  readonly error: Writable;
  /** The client wants to know of the connection before the pod says something: `connectedWord` comes first. */
  readonly tellsConnected?: boolean;
}

/** On the error stream, for clients that ask for it with `toldHeader`: probes of TCP ports (src/play). */
export const connectedWord = "connected\n";
export const toldHeader = "x-dockershim-told";

/**
 * Connects and copies until both directions have ended, each at its own time. A failed connect is reported on
 * the error stream. A later error is not, as clients end the whole port-forward at such a message: an error
 * of one side resets the other side. The error stream ends with the data from the pod: kubectl before 1.32
 * shows their end only then. Never rejects. `signal` ends the connection at once.
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
    const pod = await withDeadline(gone.signal, connectTimeoutMs, `connect to port ${port}`, (limit) =>
      session.connect(port, limit),
    );
    // From here on the copy detects a close; a stream that closed in order may still have bytes in transit.
    data.off("close", abort);
    if (streams.tellsConnected === true) error.write(connectedWord);
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
  return `error forwarding port ${port} to pod ${sandboxId}, uid : ${messageOf(error)}`;
}

/** Never rejects. An error of one stream destroys both. `onPodEnd`: all data from the pod is written. */
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
  // Each direction ends by itself; an error ends both.
  await Promise.allSettled([pipeline(data, pod), pipeline(pod, data).then(onPodEnd)]);
  pod.destroy();
}
