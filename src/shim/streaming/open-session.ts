/** Starts the session of an upgrade request with a valid token, in the protocol of the client. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { createWebSocketStream } from "ws";
import { orAbort, withDeadline } from "../../lib/abort.js";
import type { ShimError } from "../../lib/errors.js";
import type { CommandSession, PortForwardSession, StreamingSession } from "../ports/streaming.js";
import { whileConnected, type ClientConnection } from "./client-connection.js";
import { runCommand, type CommandClient } from "./command-session.js";
import {
  negotiateSpdy,
  negotiateWebSocket,
  notAnUpgrade,
  wantedTransport,
  type Refusal,
} from "./http-request.js";
import { SpdyCommand, spdyCommandProtocols } from "./spdy/exec-attach.js";
import { SpdyPortForward, spdyPortForwardProtocols } from "./spdy/port-forward.js";
import { openWebSocketCommand, webSocketCommandProtocols } from "./websocket/exec-attach.js";
import {
  refusePorts,
  tunnelProtocol,
  WebSocketPortForward,
  webSocketPortForwardProtocols,
} from "./websocket/port-forward.js";
import type { WebSocketUpgrades } from "./websocket/upgrade.js";

export interface OpenedSession {
  readonly protocol: string;
  /** Resolves when the session has ended and is cleaned up, with its error. */
  readonly ended: Promise<ShimError | undefined>;
}

export interface Opening {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly webSockets: WebSocketUpgrades;
  readonly idleTimeoutMs: number;
  /** Timeout for the streams of a command, and for the second stream of a forwarded connection. */
  readonly streamCreationTimeoutMs: number;
  /** Ends the session. */
  readonly stop: AbortSignal;
  /** Not called for a request that is refused. */
  readonly opened: (session: OpenedSession) => void;
}

/** Upgrades the connection and starts the session, or returns a refusal. */
export function openSession(session: StreamingSession, opening: Opening): Refusal | undefined {
  switch (wantedTransport(opening.request.headers)) {
    case "spdy":
      return session.kind === "portForward"
        ? spdyPortForward(session, opening)
        : spdyCommand(session, opening);
    case "websocket":
      return session.kind === "portForward"
        ? webSocketPortForward(session, opening)
        : webSocketCommand(session, opening);
    case undefined:
      return notAnUpgrade;
  }
}

function spdyCommand(session: CommandSession, opening: Opening): Refusal | undefined {
  const protocol = negotiateSpdy(opening.request.headers, spdyCommandProtocols);
  if (typeof protocol !== "string") return protocol;
  switchToSpdy(opening.socket, protocol);
  const command = new SpdyCommand(opening.socket, protocol, { session, head: opening.head });
  const work = async (signal: AbortSignal): Promise<ShimError | undefined> => {
    const client = await withDeadline(
      signal,
      opening.streamCreationTimeoutMs,
      "wait for the client to open its streams",
      (limit) => orAbort(command.opened, limit),
    );
    return runCommand(session, client, signal);
  };
  opening.opened({ protocol: `SPDY ${protocol}`, ended: whileConnected(command.connection, opening, work) });
  return undefined;
}

function spdyPortForward(session: PortForwardSession, opening: Opening): Refusal | undefined {
  const protocol = negotiateSpdy(opening.request.headers, spdyPortForwardProtocols);
  if (typeof protocol !== "string") return protocol;
  switchToSpdy(opening.socket, protocol);
  const forward = spdyForward(session, opening.socket, opening.head, opening);
  openPortForward(forward, opening, `SPDY ${protocol}`);
  return undefined;
}

function webSocketCommand(session: CommandSession, opening: Opening): Refusal | undefined {
  const protocol = negotiateWebSocket(opening.request.headers, webSocketCommandProtocols);
  if (!isProtocol(protocol)) return protocol;
  opening.webSockets.accept(opening.request, { ...opening, protocol }, (ws) => {
    const client: CommandClient = openWebSocketCommand(ws, protocol, session);
    const work = (signal: AbortSignal): Promise<ShimError | undefined> => runCommand(session, client, signal);
    opening.opened({
      protocol: `WebSocket ${protocol}`.trimEnd(),
      ended: whileConnected(client.connection, opening, work),
    });
  });
  return undefined;
}

function webSocketPortForward(session: PortForwardSession, opening: Opening): Refusal | undefined {
  const protocol = negotiateWebSocket(opening.request.headers, webSocketPortForwardProtocols);
  if (!isProtocol(protocol)) return protocol;
  const refusal = protocol === tunnelProtocol ? undefined : refusePorts(protocol, session);
  if (refusal !== undefined) return refusal;
  opening.webSockets.accept(opening.request, { ...opening, protocol }, (ws) => {
    const shown = `WebSocket ${protocol}`.trimEnd();
    if (protocol === tunnelProtocol) {
      const transport = createWebSocketStream(ws);
      transport.on("error", () => undefined); // The SPDY connection handles it.
      openPortForward(spdyForward(session, transport, Buffer.alloc(0), opening), opening, shown);
    } else {
      openPortForward(new WebSocketPortForward(ws, protocol, session), opening, shown);
    }
  });
  return undefined;
}

/** `head`: what was read of the transport behind the upgrade request. */
function spdyForward(
  session: PortForwardSession,
  transport: Duplex,
  head: Buffer,
  opening: Opening,
): SpdyPortForward {
  return new SpdyPortForward(transport, { session, head, pairTimeoutMs: opening.streamCreationTimeoutMs });
}

function openPortForward(
  forward: { readonly connection: ClientConnection; run(signal: AbortSignal): Promise<void> },
  opening: Opening,
  protocol: string,
): void {
  const ended = whileConnected(forward.connection, opening, async (signal) => {
    await forward.run(signal);
    return undefined;
  });
  opening.opened({ protocol, ended });
}

function isProtocol<Protocol extends string>(negotiated: Protocol | Refusal): negotiated is Protocol {
  return typeof negotiated === "string";
}

/** The answer that Go's clients expect: both headers, and the chosen version. */
function switchToSpdy(socket: Duplex, protocol: string): void {
  const head = [
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: SPDY/3.1",
    "Connection: Upgrade",
    `X-Stream-Protocol-Version: ${protocol}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
}
