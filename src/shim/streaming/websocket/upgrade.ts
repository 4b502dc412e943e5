/** Upgrades connections to WebSocket. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, type WebSocket } from "ws";
import { probeIntervalMs } from "../client-connection.js";

/** As Kubernetes' own servers: clients send whole files to stdin in one message. */
const maxMessageBytes = 32 * 1024 * 1024;
const closeTimeoutMs = 10_000;

export class WebSocketUpgrades {
  readonly #protocols = new WeakMap<IncomingMessage, string>();
  readonly #server: WebSocketServer;

  constructor() {
    const options = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
      // Pings are answered by answerPings, which tolerates a slow reader.
      autoPong: false,
      closeTimeout: closeTimeoutMs,
    };
    this.#server = new WebSocketServer(options);
    this.#server.on("headers", (headers, request) => {
      const protocol = this.#protocols.get(request);
      if (protocol !== undefined && protocol !== "") headers.push(`Sec-WebSocket-Protocol: ${protocol}`);
    });
  }

  /** Upgrades to `protocol`, one of the client's. Answers 400 to an invalid handshake instead. */
  accept(
    request: IncomingMessage,
    { socket, head, protocol }: { readonly socket: Duplex; readonly head: Buffer; readonly protocol: string },
    opened: (ws: WebSocket) => void,
  ): void {
    this.#protocols.set(request, protocol);
    // ws refuses names with a slash, which the tunnel's has.
    delete request.headers["sec-websocket-protocol"];
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      answerPings(ws);
      opened(ws);
    });
  }
}

/**
 * Only the latest ping is answered while an answer is being sent, as RFC 6455 permits: a flood of pings costs
 * no memory. While reading is paused, pings wait behind the client's data; client-go disconnects after 61 s.
 * An unsolicited pong prevents that, and its failure detects a client that has disconnected.
 */
function answerPings(ws: WebSocket): void {
  let onItsWay = false;
  let wanted: Buffer | undefined;
  const answer = (data: Buffer): void => {
    if (ws.readyState !== ws.OPEN) return;
    if (onItsWay) {
      wanted = data;
      return;
    }
    onItsWay = true;
    ws.pong(data, false, () => {
      onItsWay = false;
      const next = wanted;
      wanted = undefined;
      if (next !== undefined) answer(next);
    });
  };
  ws.on("ping", answer);
  const timer = setInterval(() => {
    if (ws.isPaused) answer(Buffer.alloc(0));
  }, probeIntervalMs);
  timer.unref();
  ws.once("close", () => clearInterval(timer));
}
