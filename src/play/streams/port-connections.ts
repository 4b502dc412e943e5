/** Connections to the server of streams that are kept: one for each port of a pod. */
import { linkAbort, orAbort, withDeadline } from "../../lib/abort.js";
import type { CriClient } from "../cri/client.js";
import type { Dial } from "../cri/dial.js";
import { openStreams } from "./open-streams.js";
import type { SpdyClient } from "./spdy-client.js";

export const portForwardProtocol = "portforward.k8s.io";
const openMs = 30_000;
/** After its last stream. Most probes are made again earlier. */
const idleMs = 30_000;

export interface PortConnectionsDeps {
  readonly client: Pick<CriClient, "portForwardUrl">;
  readonly dial: Dial;
  /** Ends all of them. */
  readonly ended: AbortSignal;
}

export interface PortConnection {
  readonly streams: SpdyClient;
  /** Another one for each use. */
  nextRequest(): string;
  /** To be called when the streams of a use have ended. */
  release(): void;
}

/** A probe each second would otherwise make a connection each second, which may be a process of its own. */
export class PortConnections {
  readonly #open = new Map<string, Promise<PortConnection>>();

  constructor(private readonly deps: PortConnectionsDeps) {}

  /** The opening of a connection goes on when `signal` aborts: the next use may find it open. */
  async use(id: string, port: number, signal: AbortSignal): Promise<PortConnection> {
    const key = `${id} ${port}`;
    for (;;) {
      const opening = this.#open.get(key) ?? this.#begin(key, id, port);
      const connection = await orAbort(opening, signal);
      if (!connection.streams.isEnded) return connection;
      this.#forget(key, opening);
    }
  }

  #begin(key: string, id: string, port: number): Promise<PortConnection> {
    const opening = this.#connect(id, port);
    const forget = (): void => this.#forget(key, opening);
    this.#open.set(key, opening);
    opening.then(({ streams }) => streams.closed).then(forget, forget);
    return opening;
  }

  #forget(key: string, opening: Promise<PortConnection>): void {
    if (this.#open.get(key) === opening) this.#open.delete(key);
  }

  async #connect(id: string, port: number): Promise<PortConnection> {
    const { client, dial, ended } = this.deps;
    const streams = await withDeadline(ended, openMs, `connect to port ${port}`, async (limit) =>
      openStreams(await client.portForwardUrl(id, [port], limit), portForwardProtocol, dial, limit),
    );
    const end = (): void => streams.destroy();
    const link = linkAbort(ended, end);
    void streams.closed.then(() => link[Symbol.dispose]());
    let requests = 0;
    let inUse = 0;
    let idle: NodeJS.Timeout | undefined;
    return {
      streams,
      nextRequest: () => {
        clearTimeout(idle);
        inUse += 1;
        return String(requests++);
      },
      release: () => {
        inUse -= 1;
        if (inUse === 0) idle = setTimeout(end, idleMs).unref();
      },
    };
  }
}
