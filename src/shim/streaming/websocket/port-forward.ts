/** Port-forward over WebSocket without a tunnel: two channels for each port of the request. */
import type { WebSocket } from "ws";
import type { PortForwardSession } from "../../ports/streaming.js";
import { base64Codec, binaryCodec, type ChannelCodec } from "./channel-codec.js";
import type { Refusal } from "../http-request.js";
import { forwardConnection } from "../port-connection.js";
import { WebSocketChannels } from "./channels.js";

/** A whole SPDY connection in the messages of a WebSocket. */
export const tunnelProtocol = "SPDY/3.1+portforward.k8s.io";

const codecs = {
  "v4.channel.k8s.io": binaryCodec,
  "v4.base64.channel.k8s.io": base64Codec,
  "": binaryCodec,
} as const satisfies Record<string, ChannelCodec>;

export type WebSocketPortForwardProtocol = keyof typeof codecs;
export const webSocketPortForwardProtocols = [
  tunnelProtocol,
  ...(Object.keys(codecs) as readonly WebSocketPortForwardProtocol[]),
] as const;

/** Why the channels of `protocol` cannot carry the session. */
export function refusePorts(
  protocol: WebSocketPortForwardProtocol,
  { ports }: PortForwardSession,
): Refusal | undefined {
  if (ports.length === 0) {
    return { status: 400, message: "the request names no ports, which clients of this protocol need" };
  }
  const most = Math.floor(codecs[protocol].channels / 2);
  if (ports.length <= most) return undefined;
  return { status: 400, message: `the protocol has channels for at most ${most} ports` };
}

export class WebSocketPortForward {
  readonly connection: WebSocketChannels;
  readonly #session: PortForwardSession;
  readonly #pairs;

  /** To be called before the event loop turns. */
  constructor(ws: WebSocket, protocol: WebSocketPortForwardProtocol, session: PortForwardSession) {
    this.#session = session;
    const channels = new WebSocketChannels(ws, { codec: codecs[protocol], halfClose: false });
    this.connection = channels;
    this.#pairs = session.ports.map((port, index) => {
      const pair = { port, data: channels.duplex(2 * index), error: channels.writable(2 * index + 1) };
      const announcement = Buffer.alloc(2);
      announcement.writeUInt16LE(port);
      pair.data.write(announcement);
      pair.error.write(announcement);
      return pair;
    });
  }

  /** Returns when the connections of all ports have ended, or `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    // The end of an error channel is not sent: the end of its data channel ends both directions.
    await Promise.all(this.#pairs.map((pair) => forwardConnection(this.#session, pair, signal)));
    if (!signal.aborted) await this.connection.close(signal);
  }
}
