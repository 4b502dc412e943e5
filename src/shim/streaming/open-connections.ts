/** The connections of the streaming server's clients, and which of them goes when there are too many. */
import type { Socket } from "node:net";
import type { Logger } from "../lib/log.js";

const maxConnections = 4096;
/** A host that is gone without a word is noticed by the system's probes, which begin after this. */
const keepAliveDelayMs = 30_000;

/**
 * Whoever reaches the port can open connections: any process of the node, and pods in its network namespace.
 * When there are too many, the oldest one without a session makes room. So a flood keeps nobody out: a client
 * that has a token presents it at once, and is no candidate from then on.
 */
export class OpenConnections {
  readonly #sockets = new Set<Socket>();
  /** Those that have opened no session yet, the oldest first, by their client's address and port. */
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

  /** `socket` is the connection, or what speaks TLS over it. */
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
        "too many streaming connections: the oldest ones without a session are closed",
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
  return `${remoteAddress} ${String(remotePort)}`;
}

async function closeAtOnce(socket: Socket): Promise<void> {
  await new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
    socket.destroy();
  });
}
