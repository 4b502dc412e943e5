/** Port-forward over SPDY: two streams for each connection, which a request id brings together. */
import { setMaxListeners } from "node:events";
import type { Duplex } from "node:stream";
import { orAbort } from "../../lib/abort.js";
import { endOf } from "../../lib/end-of-stream.js";
import type { PortForwardSession } from "../../ports/streaming.js";
import { probeIntervalMs } from "../client-connection.js";
import { forwardConnection, refusalOf } from "../port-connection.js";
import { resetStatus } from "./frames.js";
import { SpdyConnection, type SpdyStream } from "./spdy-connection.js";

export const spdyPortForwardProtocols = ["portforward.k8s.io"] as const;

/** Connections at once; client-go alone opens as many as its users do. */
const maxPairs = 1000;

interface Pair {
  readonly id: string;
  data?: SpdyStream;
  error?: SpdyStream;
  timer?: NodeJS.Timeout;
}

export interface SpdyPortForwardOptions {
  readonly session: PortForwardSession;
  readonly head: Buffer;
  /** How long the second stream of a pair may take. */
  readonly pairTimeoutMs: number;
}

export class SpdyPortForward {
  readonly connection: SpdyConnection;
  readonly #options: SpdyPortForwardOptions;
  readonly #pairs = new Map<string, Pair>();
  readonly #running = new Set<Promise<void>>();
  readonly #gone = new AbortController();

  constructor(transport: Duplex, options: SpdyPortForwardOptions) {
    this.#options = options;
    setMaxListeners(0, this.#gone.signal); // One for each forwarded connection.
    this.connection = new SpdyConnection(transport, {
      head: options.head,
      limits: { probeMs: probeIntervalMs },
      onStream: (stream) => {
        this.#add(stream);
      },
    });
  }

  /** Until the client is gone or `signal` aborts, and every connection to the pod has ended. */
  async run(signal: AbortSignal): Promise<void> {
    // The reason of the abort is the caller's to tell.
    await orAbort(this.connection.closed, signal).catch(() => undefined);
    this.#gone.abort();
    // A client that does not read would hold up the last words.
    this.connection.destroy();
    for (const pair of this.#pairs.values()) clearTimeout(pair.timer);
    await Promise.all(this.#running);
  }

  #add(stream: SpdyStream): void {
    stream.on("error", () => undefined); // The pair ends with its streams.
    const type = stream.headers.get("streamtype");
    const port = portOf(stream);
    if ((type !== "data" && type !== "error") || port === undefined || this.#gone.signal.aborted) {
      stream.reset(resetStatus.refusedStream);
      return;
    }
    // Old clients name no request: their data stream is the one that they open right after the error stream.
    const id = stream.headers.get("requestid") ?? String(type === "error" ? stream.id : stream.id - 2);
    const pair = this.#pairs.get(id) ?? { id };
    if (pair[type] !== undefined || (!this.#pairs.has(id) && this.#pairs.size >= maxPairs)) {
      stream.reset(resetStatus.refusedStream);
      return;
    }
    pair[type] = stream;
    this.#pairs.set(id, pair);
    if (pair.data !== undefined && pair.error !== undefined) {
      clearTimeout(pair.timer);
      this.#start(pair, pair.data, pair.error);
    } else {
      pair.timer = setTimeout(() => {
        this.#giveUp(pair, port);
      }, this.#options.pairTimeoutMs);
    }
  }

  #start(pair: Pair, data: SpdyStream, error: SpdyStream): void {
    error.resume(); // Nobody sends on it; its half-close has to be read all the same.
    const port = portOf(data) ?? 0;
    const running = forwardConnection(this.#options.session, { port, data, error }, this.#gone.signal).then(
      async () => {
        await endOf(error);
        this.#pairs.delete(pair.id);
        this.#running.delete(running);
      },
    );
    this.#running.add(running);
  }

  #giveUp(pair: Pair, port: number): void {
    this.#pairs.delete(pair.id);
    const missing = pair.data === undefined ? "data" : "error";
    pair.error?.end(refusalOf(this.#options.session, port, `timed out waiting for the ${missing} stream`));
    pair.error?.resume();
    pair.data?.reset();
  }
}

function portOf(stream: SpdyStream): number | undefined {
  const text = stream.headers.get("port") ?? "";
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
}
