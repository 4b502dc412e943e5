/** Relays the bytes of each connection between two unix sockets unchanged, with pace, half-close and end. */
import { connect, createServer, type Server, type Socket } from "node:net";
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { bindUnixSocket, type BoundSocket } from "../../lib/unix-socket.js";

/** Is given each chunk after it was passed on. What it throws is logged, and ends the tap, not the relay. */
export interface Tap {
  fromClient(chunk: Buffer): void;
  fromServer(chunk: Buffer): void;
  /** The connection has ended; nothing follows. */
  ended(): void;
}

export interface RelayOptions {
  /** Absolute path of the socket that clients dial. */
  readonly path: string;
  /** Absolute path of the server's socket. */
  readonly primary: string;
  readonly tap?: () => Tap;
  readonly log: Logger;
  /** Further ones are closed at once. */
  readonly maximumConnections?: number;
}

export interface RelayCounts {
  readonly open: number;
  readonly accepted: number;
  /** Closed at once, because too many were open. */
  readonly refused: number;
  /** Closed because the server was not there. */
  readonly unanswered: number;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
}

const defaultMaximumConnections = 1024;

export class Relay {
  readonly #listener: Server;
  readonly #pairs = new Set<Pair>();
  #bound: BoundSocket | undefined;
  #counts = { accepted: 0, refused: 0, unanswered: 0 };

  constructor(private readonly options: RelayOptions) {
    this.#listener = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) =>
      this.#accept(client),
    );
  }

  get counts(): RelayCounts {
    return { open: this.#pairs.size, ...this.#counts };
  }

  /** Listens when it resolves. Throws as `bindUnixSocket` describes: `conflict` when another relay has it. */
  async start(): Promise<void> {
    this.#bound = await bindUnixSocket(this.#listener, this.options.path);
  }

  /** Takes no new connection. Those that are open end within `graceMs`, by themselves or by force. Never throws. */
  async stop(graceMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#listener.close(() => resolve()));
    await this.#bound?.unlink();
    const timer = setTimeout(() => {
      for (const { client, server } of this.#pairs) {
        client.destroy();
        server.destroy();
      }
    }, graceMs);
    await closed;
    clearTimeout(timer);
  }

  #accept(client: Socket): void {
    const { primary, maximumConnections = defaultMaximumConnections, log } = this.options;
    // An 'error' is always followed by 'close'; without a listener it would end the process.
    client.on("error", () => undefined);
    this.#counts.accepted += 1;
    if (this.#pairs.size >= maximumConnections) {
      this.#counts.refused += 1;
      client.destroy();
      return;
    }
    const server = connect({ path: primary, allowHalfOpen: true });
    const pair = { client, server };
    this.#pairs.add(pair);
    const tap = this.#openTap();
    let connected = false;
    server.once("connect", () => {
      connected = true;
      pass(client, server, (chunk) => tap?.fromClient(chunk));
      pass(server, client, (chunk) => tap?.fromServer(chunk));
    });
    server.on("error", (error) => {
      if (connected) return;
      this.#counts.unanswered += 1;
      log.debug({ socket: primary, err: error.message }, "the server of the relay does not answer");
    });
    const onClose = (): void => {
      // Bytes that were read before the other end closed are still delivered.
      endOrDestroy(client);
      endOrDestroy(server);
      if (!client.destroyed || !server.destroyed || !this.#pairs.delete(pair)) return;
      tap?.ended();
    };
    client.once("close", onClose);
    server.once("close", onClose);
  }

  /** A tap whose errors stay here. */
  #openTap(): Tap | undefined {
    const { tap: open, log } = this.options;
    let tap: Tap | undefined;
    const guarded =
      <Input extends readonly unknown[]>(use: (tap: Tap, ...input: Input) => void) =>
      (...input: Input): void => {
        if (tap === undefined) return;
        try {
          use(tap, ...input);
        } catch (error) {
          tap = undefined;
          log.error({ err: messageOf(error) }, "stopped observing a connection");
        }
      };
    try {
      tap = open?.();
    } catch (error) {
      log.error({ err: messageOf(error) }, "cannot observe a connection");
    }
    if (tap === undefined) return undefined;
    return {
      fromClient: guarded((to, chunk: Buffer) => to.fromClient(chunk)),
      fromServer: guarded((to, chunk: Buffer) => to.fromServer(chunk)),
      ended: guarded((to) => to.ended()),
    };
  }
}

/** Passes all bytes and the end on. Reads no further while `to` does not take them. */
function pass(from: Socket, to: Socket, tap: (chunk: Buffer) => void): void {
  from.on("data", (chunk: Buffer) => {
    if (!to.write(chunk)) from.pause();
    tap(chunk);
  });
  to.on("drain", () => from.resume());
  from.on("end", () => to.end());
  from.resume();
}

/** A socket whose peer is gone: what was written to it is sent, and then it is closed. */
function endOrDestroy(socket: Socket): void {
  if (socket.destroyed) return;
  if (socket.writableLength === 0 || socket.connecting) socket.destroy();
  else socket.destroySoon();
}
