/** One stream of a SPDY connection. */
import { Duplex, finished, type DuplexOptions } from "node:stream";
import { ShimError } from "../../../lib/errors.js";
import { InputBuffer } from "../input-buffer.js";
import { resetStatus } from "../../../lib/spdy/frames.js";
import type { Headers } from "./header-block.js";

/**
 * A stream that the client opened by SYN_STREAM. Ends, errors and backpressure are those of any Duplex; each
 * half ends by itself. Unconsumed bytes hold up the whole connection: call `resume()` on a stream whose input
 * is not used. `for await` destroys both halves when the client's half has ended, as with every Duplex.
 *
 * Destroyed with a ShimError `cancelled` when the client resets it or disconnects. `destroy()` resets it. An
 * `error` event without listeners has no effect.
 */
export interface SpdyStream extends Duplex {
  readonly id: number;
  /** Names in lower case. Of a header with several values (SPDY joins them with NUL) the first one. */
  readonly headers: Headers;
  /** RST_STREAM with a status (CANCEL, unless given), and destroy. */
  reset(status?: number): void;
}

/** What a stream uses of its connection. */
export interface StreamLink {
  send(streamId: number, chunks: Buffer[], done: Done): void;
  sendEnd(streamId: number, done: Done): void;
  /** The memory of `stream`'s buffered input has changed, by so many bytes. */
  buffered(stream: ConnectionStream, change: number): void;
  /** The stream is over. A status is sent to the client. */
  over(stream: ConnectionStream, status: number | undefined, error: Error): void;
}

type Done = (error?: Error | null) => void;

/** The stream as its connection sees it. */
export class ConnectionStream extends Duplex implements SpdyStream {
  readonly #link: StreamLink;
  readonly #input: InputBuffer;
  #localEnded: boolean;
  #status: number | undefined = resetStatus.cancel;

  constructor(
    readonly id: number,
    readonly headers: Headers,
    link: StreamLink,
    { unidirectional }: { readonly unidirectional: boolean },
  ) {
    const options: DuplexOptions & { readonly writable: boolean } = {
      readableHighWaterMark: 0,
      writableHighWaterMark: 64 * 1024,
      writable: !unidirectional,
    };
    super(options);
    this.#link = link;
    this.#input = new InputBuffer(this, (change) => {
      link.buffered(this, change);
    });
    this.#localEnded = unidirectional;
    // An unhandled error event would end the process.
    this.on("error", () => undefined);
  }

  get remoteEnded(): boolean {
    return this.#input.hasEnded;
  }

  /** Memory that its buffered input takes. */
  get bufferedBytes(): number {
    return this.#input.bytes;
  }

  receive(bytes: Buffer): void {
    if (bytes.length > 0) this.#input.receive(bytes);
  }

  /** The client sends no more. */
  receiveEnd(): void {
    this.#input.end();
  }

  reset(status: number = resetStatus.cancel): void {
    if (this.destroyed) return;
    this.#status = status;
    this.destroy();
  }

  /** As `destroy(error)`, without a message to the client, which reset the stream or has disconnected. */
  abandon(error: Error): void {
    if (this.destroyed) return;
    this.#status = undefined;
    // No data is lost: clients reset a stream to which they do not write.
    if (this.#localEnded && this.#input.bytes === 0 && this.readableLength === 0) this.destroy();
    else this.destroy(error);
  }

  /** Resolves when all data written so far is with the transport, or the stream is destroyed. */
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
    this.#input.read();
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
    this.#input.clear();
    const status = this.#localEnded && this.remoteEnded ? undefined : this.#status;
    this.#link.over(this, status, error ?? new ShimError("cancelled", `write to stream ${this.id}: reset`));
    done(error);
  }
}

const nothing = Buffer.alloc(0);
