/** Clients of the streaming server, down to the bytes of their requests. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { WebSocket } from "ws";
import { SpdyClient } from "./spdy-client.js";

export interface HttpAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  readonly socket: Socket;
  /** What followed the head. */
  readonly head: Buffer;
}

/**
 * Sends `lines` and an empty line to the URL's server. Reads the head of its answer, and the body unless it
 * is 101.
 */
export async function sendRaw(url: string, lines: readonly string[]): Promise<HttpAnswer> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port), allowHalfOpen: true });
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  return readAnswer(socket);
}

export async function readAnswer(socket: Socket): Promise<HttpAnswer> {
  let bytes = Buffer.alloc(0);
  return new Promise((resolve, reject) => {
    let answer: HttpAnswer | undefined;
    const onData = (chunk: Buffer): void => {
      bytes = Buffer.concat([bytes, chunk]);
      const end = bytes.indexOf("\r\n\r\n");
      if (end < 0 || answer !== undefined) return;
      const [first = "", ...rest] = bytes.toString("latin1", 0, end).split("\r\n");
      const headers = new Map(
        rest.map((line) => [
          line.slice(0, line.indexOf(":")).toLowerCase(),
          line.slice(line.indexOf(":") + 2),
        ]),
      );
      answer = {
        status: Number(first.split(" ")[1]),
        headers,
        body: "",
        socket,
        head: bytes.subarray(end + 4),
      };
      if (answer.status !== 101) return;
      socket.off("data", onData);
      socket.off("close", onClose);
      socket.pause();
      resolve(answer);
    };
    const onClose = (): void => {
      if (answer === undefined) reject(new Error(`closed after ${JSON.stringify(bytes.toString("latin1"))}`));
      else resolve({ ...answer, body: bytes.subarray(bytes.indexOf("\r\n\r\n") + 4).toString() });
    };
    socket.on("data", onData);
    socket.on("error", () => undefined);
    socket.once("end", () => socket.end());
    socket.once("close", onClose);
  });
}

/** The request of client-go; `replaced` headers stand in for its own. */
export function spdyRequest(
  url: string,
  protocols: readonly string[],
  replaced?: readonly string[],
): string[] {
  const { pathname, host } = new URL(url);
  return [
    `POST ${pathname} HTTP/1.1`,
    `Host: ${host}`,
    "User-Agent: Go-http-client/1.1",
    "Content-Length: 0",
    ...(replaced ?? ["Connection: Upgrade", "Upgrade: SPDY/3.1"]),
    ...protocols.map((protocol) => `X-Stream-Protocol-Version: ${protocol}`),
  ];
}

export const commandProtocols = [
  "v4.channel.k8s.io",
  "v3.channel.k8s.io",
  "v2.channel.k8s.io",
  "channel.k8s.io",
];

/** Opens a SPDY connection under `url`. */
export async function openSpdy(
  url: string,
  protocols: readonly string[] = commandProtocols,
): Promise<SpdyClient> {
  const answer = await sendRaw(url, spdyRequest(url, protocols));
  if (answer.status !== 101) throw new Error(`${answer.status}: ${answer.body}`);
  return new SpdyClient(answer.socket, answer.head);
}

/** A WebSocket client that keeps all messages. */
export class WebSocketClient {
  readonly messages: Buffer[] = [];
  readonly texts: boolean[] = [];
  readonly closed: Promise<number>;

  constructor(readonly ws: WebSocket) {
    ws.on("message", (data: Buffer, isBinary) => {
      this.messages.push(data);
      this.texts.push(!isBinary);
    });
    ws.on("error", () => undefined);
    this.closed = new Promise((resolve) => ws.once("close", resolve));
  }

  /** All bytes of a channel, in the binary form. */
  channel(channel: number): string {
    return Buffer.concat(this.messages.filter((m) => m[0] === channel).map((m) => m.subarray(1))).toString();
  }
}

/** The request of a WebSocket client; the protocol "" is the one of clients that name none. */
export function webSocketRequest(url: string, protocol: string, replaced?: readonly string[]): string[] {
  const { pathname, host } = new URL(url);
  return [
    `GET ${pathname} HTTP/1.1`,
    `Host: ${host}`,
    ...(replaced ?? ["Connection: Upgrade", "Upgrade: websocket"]),
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ...(protocol === "" ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
  ];
}

/** What ws does for its own clients, which cannot name the tunnel's protocol. */
interface Internals {
  _isServer: boolean;
  setSocket(socket: Socket, head: Buffer, options: Readonly<Record<string, unknown>>): void;
}

export function webSocketOn({ socket, head }: Pick<HttpAnswer, "socket" | "head">): WebSocketClient {
  const ws = new (WebSocket as unknown as new (...options: unknown[]) => WebSocket)(null, undefined, {
    autoPong: true,
    closeTimeout: 5_000,
  });
  const internals = ws as unknown as Internals;
  internals._isServer = false;
  const client = new WebSocketClient(ws);
  internals.setSocket(socket, head, { allowSynchronousEvents: true, maxPayload: 0, maxFragments: 0 });
  socket.resume();
  return client;
}

export async function openWebSocket(url: string, protocol: string): Promise<WebSocketClient> {
  const answer = await sendRaw(url, webSocketRequest(url, protocol));
  const agreed = answer.headers.get("sec-websocket-protocol") ?? "";
  if (answer.status !== 101 || agreed !== protocol) throw new Error(`${answer.status}: ${answer.body}`);
  return webSocketOn(answer);
}

export interface Proxy extends Disposable {
  /** `url` as it is seen through the proxy. */
  through(url: string): string;
}

/**
 * A proxy like the kubelet: accepts a connection, dials the server of `url` and copies bytes both ways until
 * one ends.
 */
export async function startByteProxy(url: string): Promise<Proxy> {
  const target = new URL(url);
  const server = createServer((client) => {
    const backend = connect({ host: target.hostname, port: Number(target.port) });
    for (const [from, to] of [
      [client, backend],
      [backend, client],
    ] as const) {
      from.pipe(to);
      from.on("error", () => undefined);
      from.once("close", () => to.destroySoon());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    through: (seen) => seen.replace(target.host, `127.0.0.1:${port}`),
    [Symbol.dispose]: () => server.close(),
  };
}
