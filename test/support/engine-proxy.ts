/** A unix socket between a shim and the engine. What passes it, and how, is decided by its kinds. */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import { rename } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { dockerSocket } from "./docker.js";

export interface ProxiedRequest {
  readonly method: string;
  /** Without the version prefix. */
  readonly path: string;
}

/**
 * A request body or answer is passed on as it comes; exec's hijacked connections are passed on as raw bytes.
 */
export abstract class EngineProxy implements AsyncDisposable {
  readonly endpoint: string;
  readonly #sockets = new Set<Duplex>();
  #server = createServer();

  protected constructor(readonly socket: string) {
    this.endpoint = `unix://${socket}`;
  }

  /** Takes connections; the engine need not be there yet. */
  async accept(): Promise<void> {
    const server = createServer();
    server.on("request", (incoming, outgoing) => {
      this.onRequest(incoming, outgoing);
    });
    server.on("upgrade", (incoming: IncomingMessage, client: Socket, head: Buffer) => {
      this.onUpgrade(incoming, client, head);
    });
    server.on("connection", (client) => {
      this.#own(client);
    });
    // Renamed, so that the end of the server does not remove the file: connections are then refused, as by an
    // engine that was killed.
    const listening = `${this.socket}.listening`;
    server.listen(listening);
    await once(server, "listening");
    await rename(listening, this.socket);
    this.#server = server;
  }

  /** Cuts every connection and takes no new ones: "connection refused". */
  async refuse(): Promise<void> {
    if (!this.#server.listening) return;
    this.cutConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  /** Cuts every connection. Held requests and answers never arrive. */
  cutConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Connections of the shim, and those to the engine that were taken out of HTTP. */
  get connections(): number {
    return this.#sockets.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.refuse();
  }

  protected abstract onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void;
  protected abstract onUpgrade(incoming: IncomingMessage, client: Socket, head: Buffer): void;

  /** Who gets a request that is sent on. */
  protected socketFor(_incoming: IncomingMessage): string {
    return dockerSocket;
  }

  /**
   * Forwards a request; `onAnswer` may pass the answer back. A connection that breaks on one side is cut on
   * the other.
   */
  protected forward(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    onAnswer: (answer: IncomingMessage) => void = (answer) => passAnswer(answer, outgoing),
  ): void {
    const { method = "GET", url = "/", headers } = incoming;
    const onward = httpRequest({
      socketPath: this.socketFor(incoming),
      method,
      path: url,
      headers,
      agent: false,
    });
    onward.on("response", (answer) => {
      answer.on("error", () => outgoing.destroy());
      onAnswer(answer);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  }

  /**
   * Sends the begin of a connection on that leaves HTTP; answers the connection to the engine, not yet
   * joined.
   */
  protected dialRaw(
    incoming: IncomingMessage,
    client: Socket,
    head: Buffer,
    { endsClient = true } = {},
  ): Socket {
    const engine = connect(dockerSocket);
    this.#own(engine);
    const lines = [`${incoming.method ?? "GET"} ${incoming.url ?? "/"} HTTP/1.1`];
    for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
      lines.push(`${incoming.rawHeaders[at] ?? ""}: ${incoming.rawHeaders[at + 1] ?? ""}`);
    }
    engine.write(`${lines.join("\r\n")}\r\n\r\n`);
    engine.write(head);
    client.pipe(engine);
    const endClient = (): void => {
      if (endsClient) client.destroy();
    };
    engine.on("error", endClient);
    engine.on("close", endClient);
    client.on("error", () => engine.destroy());
    client.on("close", () => engine.destroy());
    return engine;
  }

  #own(socket: Duplex): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
  }
}

export function passAnswer(answer: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
  outgoing.flushHeaders();
  answer.pipe(outgoing);
}

export function proxiedRequest({ method = "GET", url = "/" }: IncomingMessage): ProxiedRequest {
  return { method, path: url.replace(/^\/v\d+\.\d+/, "") };
}
