/** One connection to a port of a pod, through the CRI server. */
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { linkAbort } from "../../lib/abort.js";
import { ShimError, succeeds } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { beginningOf } from "../../lib/streams.js";
import type { Dial } from "../cri/dial.js";
import { openStreams } from "./open-streams.js";
import { portForwardProtocol } from "./port-connections.js";

const errorBytes = 4096;

/**
 * Copies bytes between `local`, a socket with half-open ends, and the pod's port until both directions have
 * ended. `url`: what PortForward
 * answered; it serves one connection, so that a slow one holds up no other. Rejects with the server's reason,
 * such as a port on which nothing listens; `local` is then destroyed.
 */
export async function forwardPort(
  url: string,
  port: number,
  local: Duplex,
  dial: Dial,
  signal: AbortSignal,
): Promise<void> {
  const connection = await openStreams(url, portForwardProtocol, dial, signal);
  using _ = linkAbort(signal, () => connection.destroy());
  try {
    const headers = { port: String(port), requestid: "0" };
    const errors = connection.open({ ...headers, streamtype: "error" });
    errors.end();
    const data = connection.open({ ...headers, streamtype: "data" });
    // What the server says; empty when the connection ended well.
    const reason = beginningOf(errors, errorBytes, { orPart: true });
    // Its failure destroys both streams, and so ends the other direction.
    pipeline(local, data).catch(() => undefined);
    const received = succeeds(pipeline(data, local));
    // The server ends the error stream when both directions have ended on its side.
    const said = await Promise.race([reason, received.then((isWhole) => (isWhole ? reason : ""))]);
    if (said !== "") throw new ShimError("unavailable", shownText(said));
    await received;
  } finally {
    connection.destroy();
    local.destroy();
  }
}
