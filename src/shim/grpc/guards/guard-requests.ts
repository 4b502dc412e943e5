/** Rules for requests before grpc-js handles them; guards.test.ts and server.test.ts show their use. */
import type { Http2Server, Http2Session, IncomingHttpHeaders } from "node:http2";

/**
 * Memory of all requests whose message is not complete: four messages of the largest size. Without this
 * limit, 60 connections take 500 MB, and 500 of them what they like: hostile-http2.test.ts.
 */
const largestUnfinishedBytes = 64 * 1024 * 1024;
/** What a request costs before the first byte of its message: its headers, its stream, its call. */
const requestBytes = 16 * 1024;

/** Sees every request of `server` before the listeners that it has. */
export function guardRequests(server: Http2Server, limitBytes = largestUnfinishedBytes): void {
  const unfinished = new UnfinishedRequests(limitBytes);
  server.prependListener("stream", (stream, headers) => {
    limitTimeout(headers);
    refuseCompression(headers);
    if (stream.session === undefined || stream.readableEnded) return;
    const request = unfinished.add(stream.session);
    stream.on("data", (chunk: Buffer) => request.grow(chunk.length));
    for (const event of ["end", "close"]) stream.once(event, () => request.finish());
  });
}

interface UnfinishedRequest {
  readonly session: Http2Session;
  bytes: number;
}

/** When all together are too many, closes the connection of the oldest one. */
class UnfinishedRequests {
  /** In the order in which they began. */
  readonly #requests = new Set<UnfinishedRequest>();
  #bytes = 0;

  constructor(private readonly limitBytes: number) {}

  add(session: Http2Session): { grow(bytes: number): void; finish(): void } {
    const request: UnfinishedRequest = { session, bytes: 0 };
    if (!session.destroyed) this.#requests.add(request);
    const grow = (bytes: number): void => {
      if (!this.#requests.has(request)) return;
      request.bytes += bytes;
      this.#bytes += bytes;
      while (this.#bytes > this.limitBytes) this.#closeOldest();
    };
    grow(requestBytes);
    return {
      grow,
      finish: () => {
        this.#forget(request);
      },
    };
  }

  #forget(request: UnfinishedRequest): void {
    if (this.#requests.delete(request)) this.#bytes -= request.bytes;
  }

  #closeOldest(): void {
    const [oldest] = this.#requests;
    if (oldest === undefined) return;
    for (const request of this.#requests) if (request.session === oldest.session) this.#forget(request);
    oldest.session.destroy();
  }
}

/** The longest delay of a timer of Node.js. */
const longestTimeoutSeconds = 2_147_483;
const secondsPerUnit: Readonly<Record<string, number>> = { H: 3600, M: 60, S: 1 };

/** grpc-js computes timeouts in 32 bits: one of 25 days (a long grace period) would be negative or short. */
function limitTimeout(headers: IncomingHttpHeaders): void {
  const [, amount, unit = ""] = /^(\d{1,8})([HMS])$/.exec(String(headers["grpc-timeout"])) ?? [];
  if (Number(amount) * (secondsPerUnit[unit] ?? 0) > longestTimeoutSeconds) {
    headers["grpc-timeout"] = `${longestTimeoutSeconds}S`;
  }
}

/** grpc-js would decompress all requests at once, each to 16 MiB; UNIMPLEMENTED for an unknown one. */
function refuseCompression(headers: IncomingHttpHeaders): void {
  const encoding = headers["grpc-encoding"] ?? "identity";
  if (encoding !== "identity") headers["grpc-encoding"] = "other than identity";
}
