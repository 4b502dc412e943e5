/**
 * Connections of this process to a port that nothing has answered yet. grpc-js keeps them for two minutes, also when
 * its channel is closed, and Node.js does not end while there is one.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

/** Documented by Node.js: each socket of a client, before it connects. */
const channel = "net.client.socket";

export class PendingConnections {
  readonly #sockets = new Set<Socket>();

  constructor(private readonly port: number) {}

  /** From now on connections are watched. */
  start(): void {
    subscribe(channel, this.#watch);
  }

  /** Ends those that are pending, and watches no more. */
  stop(): void {
    unsubscribe(channel, this.#watch);
    for (const socket of this.#sockets) socket.destroy();
  }

  readonly #watch = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    // Node.js before 20.12 has no such event, and ends such a process by force.
    socket.once("connectionAttempt", (_address: string, port: number) => {
      if (port !== this.port) return;
      this.#sockets.add(socket);
      const forget = (): unknown => this.#sockets.delete(socket);
      socket.once("connect", forget).once("close", forget);
    });
  };
}
