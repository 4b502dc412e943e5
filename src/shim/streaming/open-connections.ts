/** The connections of the streaming server's clients, and a limit for their number. */
import type { Socket } from "node:net";
import type { Logger } from "../../lib/log.js";

const maxConnections = 4096;
/** The system's keep-alive probes, which detect a lost host, begin after this time. */
const keepAliveDelayMs = 30_000;

/** When there are too many, the oldest without a session is closed: tokens are presented at once. */
export class OpenConnections {
  readonly #sockets = new Set<Socket>();
  /** Connections without a session, the oldest first, by their client's address and port. */
  readonly #waiting = new Map<string, Socket>();
  #isFull = false;

  constructor(
    private readonly log: Pick<Logger, "warn">,
    private readonly most: number = maxConnections,
  ) {}

  get size(): number {
    return this.#sockets.size;
  }

  accept(socket: Socket): void {
    socket.on("error", () => undefined); // "close" follows.
    const client = clientOf(socket);
    if (this.#sockets.size >= this.most && !this.#makeRoom()) {
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    this.#waiting.set(client, socket);
    socket.setKeepAlive(true, keepAliveDelayMs);
    socket.setNoDelay(true);
    socket.once("close", () => {
      this.#forget(client, socket);
      if (this.#sockets.size < this.most / 2) this.#isFull = false;
    });
  }

  /** `socket` is the connection, or the TLS socket over it. */
  hasSession(socket: Socket): void {
    this.#waiting.delete(clientOf(socket));
  }

  /** Returns when all are closed. */
  async destroyAll(): Promise<void> {
    await Promise.all([...this.#sockets].map(closeAtOnce));
  }

  /** False when each connection has a session. */
  #makeRoom(): boolean {
    if (!this.#isFull) {
      this.log.warn(
        { connections: this.most },
        "too many streaming connections, closing the oldest without a session",
      );
    }
    this.#isFull = true;
    const [oldest] = this.#waiting;
    if (oldest === undefined) return false;
    this.#forget(...oldest);
    oldest[1].destroy();
    return true;
  }

  #forget(client: string, socket: Socket): void {
    this.#sockets.delete(socket);
    if (this.#waiting.get(client) === socket) this.#waiting.delete(client);
  }
}

function clientOf({ remoteAddress = "", remotePort = 0 }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

async function closeAtOnce(socket: Socket): Promise<void> {
  await new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
    socket.destroy();
  });
}
