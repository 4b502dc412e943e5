/** Port-forward over SPDY: each connection has a data and an error stream with the same request id. */
import type { Duplex } from "node:stream";
import { orAbort } from "../../../lib/abort.js";
import { endOf } from "../../../lib/streams.js";
import type { PortForwardSession } from "../../ports/streaming.js";
import { probeIntervalMs } from "../client-connection.js";
import { forwardConnection, refusalOf, toldHeader } from "../port-connection.js";
import { resetStatus } from "../../../lib/spdy/frames.js";
import { SpdyConnection, type SpdyStream } from "./spdy-connection.js";

export const spdyPortForwardProtocols = ["portforward.k8s.io"] as const;

/** Connections at once; client-go opens one for each connection of its users. */
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
    this.connection = new SpdyConnection(transport, {
      head: options.head,
      limits: { probeMs: probeIntervalMs },
      onStream: (stream) => {
        this.#add(stream);
      },
    });
  }

  /** Returns after the client disconnects or `signal` aborts, when every connection to the pod has ended. */
  async run(signal: AbortSignal): Promise<void> {
    // The caller knows the reason of the abort.
    await orAbort(this.connection.closed, signal).catch(() => undefined);
    this.#gone.abort();
    // An orderly end would wait for a client that does not read.
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
    // Old clients send no request id: they open the data stream right after the error stream.
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
        this.#timeOut(pair, port);
      }, this.#options.pairTimeoutMs);
    }
  }

  #start(pair: Pair, data: SpdyStream, error: SpdyStream): void {
    error.resume(); // Clients send no data on it, but its half-close must be read.
    const port = portOf(data) ?? 0;
    const running = forwardConnection(
      this.#options.session,
      { port, data, error, tellsConnected: error.headers.get(toldHeader) === "connected" },
      this.#gone.signal,
    ).then(async () => {
      await endOf(error);
      this.#pairs.delete(pair.id);
      this.#running.delete(running);
    });
    this.#running.add(running);
  }

  #timeOut(pair: Pair, port: number): void {
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
