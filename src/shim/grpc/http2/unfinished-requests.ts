/**
 * Memory of all requests whose message is not complete, and of all answers that wait for their clients: four messages of the
 * largest size. Without this limit, 60 connections take 500 MB by requests, 10 take 5 GB by answers of 600 KB, and 500 of them
 * what they like: hostile-http2.test.ts.
 */
const largestUnfinishedBytes = 64 * 1024 * 1024;
/** What a request costs before the first byte of its message: its headers, its stream, its call. */
const requestBytes = 16 * 1024;

interface Closable {
  destroy(): void;
}

export interface UnfinishedRequest {
  grow(bytes: number): void;
  finish(): void;
}

/** When all together are too many, closes the connection of the oldest one. */
export class UnfinishedRequests {
  /** In the order in which they began. */
  readonly #requests = new Set<{ readonly connection: Closable; bytes: number }>();
  #bytes = 0;

  constructor(private readonly limitBytes = largestUnfinishedBytes) {}

  add(connection: Closable): UnfinishedRequest {
    const request = { connection, bytes: 0 };
    this.#requests.add(request);
    const unfinished = {
      grow: (bytes: number) => {
        request.bytes += bytes;
        this.#bytes += bytes;
        if (this.#bytes > this.limitBytes) this.#closeOldest();
      },
      finish: () => {
        if (this.#requests.delete(request)) this.#bytes -= request.bytes;
      },
    };
    unfinished.grow(requestBytes);
    return unfinished;
  }

  #closeOldest(): void {
    const [oldest] = this.#requests;
    // Its connection takes back all of its requests.
    oldest?.connection.destroy();
  }
}
