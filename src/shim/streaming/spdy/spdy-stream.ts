/** One stream of a SPDY connection. */
import { Duplex, finished, type DuplexOptions } from "node:stream";
import { ShimError } from "../../lib/errors.js";
import { chunkCostBytes } from "../chunk-cost.js";
import { resetStatus } from "./frames.js";
import type { Headers } from "./header-block.js";

/**
 * What one SYN_STREAM of the client opened. Ends, errors and backpressure are those of any Duplex; each half ends by
 * itself. Bytes that nobody reads hold up the whole connection: call `resume()` on a stream whose bytes are not wanted.
 * `for await` destroys both halves when the client's one has ended, as with every Duplex.
 *
 * Destroyed with a ShimError `cancelled` when the client resets it or goes away. `destroy()` resets it. An `error` event
 * without listeners harms nobody.
 */
export interface SpdyStream extends Duplex {
  readonly id: number;
  /** Names in lower case. Of a header with several values (SPDY joins them with NUL) the first one. */
  readonly headers: Headers;
  /** RST_STREAM with a status (CANCEL, unless given), and destroy. */
  reset(status?: number): void;
}

/** What a stream needs of its connection. */
export interface StreamLink {
  send(streamId: number, chunks: Buffer[], done: Done): void;
  sendEnd(streamId: number, done: Done): void;
  /** The change of what `stream` holds unread. */
  unread(stream: ConnectionStream, change: number): void;
  /** The stream is over; with a status that the client is to be told. */
  over(stream: ConnectionStream, status: number | undefined, error: Error): void;
}

type Done = (error?: Error | null) => void;

/** The stream as its connection sees it. */
export class ConnectionStream extends Duplex implements SpdyStream {
  readonly #link: StreamLink;
  /** Received, not asked for yet. */
  readonly #unread: Buffer[] = [];
  #unreadBytes = 0;
  /** `_read` was called, and nothing was there. */
  #wanted = false;
  #remoteEnded = false;
  #localEnded: boolean;
  #status: number | undefined = resetStatus.cancel;

  constructor(
    readonly id: number,
    readonly headers: Headers,
    link: StreamLink,
    { unidirectional }: { readonly unidirectional: boolean },
  ) {
    // Unread bytes are kept here and not by the Readable, which knows nothing of their cost.
    const options: DuplexOptions & { readonly writable: boolean } = {
      readableHighWaterMark: 0,
      writableHighWaterMark: 64 * 1024,
      writable: !unidirectional,
    };
    super(options);
    this.#link = link;
    this.#localEnded = unidirectional;
    // A reset by the client is no reason to end the process.
    this.on("error", () => undefined);
  }

  get remoteEnded(): boolean {
    return this.#remoteEnded;
  }

  /** What its unread bytes take. */
  get unreadBytes(): number {
    return this.#unreadBytes;
  }

  receive(bytes: Buffer): void {
    if (this.destroyed || bytes.length === 0) return;
    if (this.#wanted) {
      this.#wanted = false;
      this.push(bytes);
      return;
    }
    this.#unread.push(bytes);
    this.#count(chunkCostBytes(bytes));
  }

  /** The client sends no more. */
  receiveEnd(): void {
    if (this.destroyed || this.#remoteEnded) return;
    this.#remoteEnded = true;
    if (this.#unread.length === 0) this.push(null);
  }

  reset(status: number = resetStatus.cancel): void {
    if (this.destroyed) return;
    this.#status = status;
    this.destroy();
  }

  /** As `destroy(error)`, but the client is not told: it did it, or it is not there any more. */
  abandon(error: Error): void {
    if (this.destroyed) return;
    this.#status = undefined;
    // Both sides have said what they had to say: the client lets go of a stream that it does not write to.
    if (this.#localEnded && this.#unreadBytes === 0 && this.readableLength === 0) this.destroy();
    else this.destroy(error);
  }

  /** Resolves when everything written so far has been handed over, or the stream is destroyed. */
  async flushed(): Promise<void> {
    if (this.destroyed || this.writableFinished || !this.#hasUnsent()) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        resolve();
      };
      if (this.writableEnded) finished(this, { readable: false }, done);
      else this.write(nothing, done);
    });
  }

  #hasUnsent(): boolean {
    return this.writableLength > 0 || (this.writableEnded && !this.#localEnded);
  }

  override _read(): void {
    const bytes = this.#unread.shift();
    if (bytes === undefined) {
      if (this.#remoteEnded) this.push(null);
      else this.#wanted = true;
      return;
    }
    this.push(bytes);
    this.#count(-chunkCostBytes(bytes));
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    if (chunk.length === 0) done();
    else this.#link.send(this.id, [chunk], done);
  }

  override _writev(writes: { readonly chunk: Buffer }[], done: Done): void {
    const chunks = writes.map(({ chunk }) => chunk).filter((chunk) => chunk.length > 0);
    if (chunks.length === 0) done();
    else this.#link.send(this.id, chunks, done);
  }

  override _final(done: Done): void {
    this.#link.sendEnd(this.id, (error) => {
      if (error === undefined || error === null) this.#localEnded = true;
      done(error);
    });
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#unread.length = 0;
    this.#count(-this.#unreadBytes);
    const status = this.#localEnded && this.#remoteEnded ? undefined : this.#status;
    this.#link.over(
      this,
      status,
      error ?? new ShimError("cancelled", `write to stream ${String(this.id)}: reset`),
    );
    done(error);
  }

  #count(change: number): void {
    if (change === 0) return;
    this.#unreadBytes += change;
    this.#link.unread(this, change);
  }
}

const nothing = Buffer.alloc(0);
