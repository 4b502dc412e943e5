/**
 * A client's connection as the HTTP/2 library reads and writes it. It ends two kinds of connections that
 * would keep one of the 500 places, and its descriptor: that of a client that resets requests without end
 * (hostile-http2.test.ts, "requests that are reset at once"), and that of a client that does not read
 * (guards.test.ts).
 *
 * A socket that the library gets itself is read in native code, where a flood of PINGs ends the process with
 * an assertion (Node.js 20.20): hostile-http2.test.ts, "a flood of PINGs". Behind this stream nghttp2 closes
 * the connection at 1000 PINGs or SETTINGS that it could not answer.
 */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";

export interface GuardedConnectionOptions {
  /** What the library is given for a chunk of the client. An error that it throws ends the connection. */
  readonly rewrite?: ((chunk: Buffer) => readonly Buffer[]) | undefined;
  /** How long a client may take to read what was written. */
  readonly stalledMs?: number | undefined;
}

/** How long a client may take to read what was written before the connection was closed. */
const closeGraceMs = 1_000;

export class GuardedConnection extends Duplex {
  readonly #socket: Socket;
  readonly #rewrite: GuardedConnectionOptions["rewrite"];
  readonly #stalledMs: number;
  readonly #resets = new ResetLimit();

  /** `opening`: what has been read of the socket before. */
  constructor(
    socket: Socket,
    opening: Buffer,
    { rewrite, stalledMs = 120_000 }: GuardedConnectionOptions = {},
  ) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#rewrite = rewrite;
    this.#stalledMs = stalledMs;
    socket.on("data", (chunk: Buffer) => {
      this.#forward(chunk);
    });
    socket.once("end", () => this.push(null));
    socket.once("error", (error) => {
      this.destroy(error);
    });
    socket.once("close", () => {
      this.destroy();
    });
    // A flood in the opening ends it before the library listens; while the server stops, it never does.
    this.on("error", () => undefined);
    this.#forward(opening);
    socket.resume();
  }

  #forward(chunk: Buffer): void {
    if (this.destroyed) return;
    try {
      this.#resets.check(chunk);
      for (const bytes of this.#rewrite?.(chunk) ?? [chunk]) {
        if (!this.push(bytes)) this.#socket.pause();
      }
    } catch (error) {
      this.destroy(error as Error);
    }
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, this.#inTime(done));
  }

  /** Frames that were written together leave together. */
  override _writev(
    chunks: readonly { readonly chunk: Buffer }[],
    done: (error?: Error | null) => void,
  ): void {
    this.#socket.cork();
    for (const [index, { chunk }] of chunks.entries()) {
      this.#socket.write(chunk, index === chunks.length - 1 ? this.#inTime(done) : undefined);
    }
    this.#socket.uncork();
  }

  /** grpc-js ends the session of a client that answers no PING, but not its streams. */
  #inTime(done: (error?: Error | null) => void): (error?: Error | null) => void {
    const timer = setTimeout(() => {
      this.destroy(new Error("the client does not read"));
    }, this.#stalledMs).unref();
    return (error) => {
      clearTimeout(timer);
      done(error);
    };
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // What was written before (a GOAWAY with its reason) is sent, unless the connection failed.
    if (error === null && !this.#socket.destroyed) {
      this.#socket.destroySoon();
      const timer = setTimeout(() => this.#socket.destroy(), closeGraceMs).unref();
      this.#socket.once("close", () => clearTimeout(timer));
    } else {
      this.#socket.destroy();
    }
    done(error);
  }
}

/**
 * RST_STREAM frames that a client may send at once, and per second from then on. Both are less than nghttp2
 * allows (1000 and 33): beyond, it sends GOAWAY, stops reading and leaves the connection open, also when the
 * client leaves. A kubelet that stops or times out cancels some hundred calls at most.
 */
const resetBurst = 500;
const resetsPerSecond = 30;

const prefaceBytes = 24;
const frameHeaderBytes = 9;
const rstStream = 3;

/** Counts the RST_STREAM frames in the bytes of a client, from its connection preface on. */
export class ResetLimit {
  /** Bytes of the preface or of a frame's payload that are still to come. */
  #skip = prefaceBytes;
  readonly #header = Buffer.alloc(frameHeaderBytes);
  #headerBytes = 0;
  #resets = 0;
  #countedAtMs = 0;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Throws when the client has sent too many. */
  check(chunk: Buffer): void {
    for (let offset = 0; offset < chunk.length;) {
      if (this.#skip > 0) {
        const skipped = Math.min(this.#skip, chunk.length - offset);
        this.#skip -= skipped;
        offset += skipped;
        continue;
      }
      const copied = chunk.copy(this.#header, this.#headerBytes, offset);
      this.#headerBytes += copied;
      offset += copied;
      if (this.#headerBytes < frameHeaderBytes) return;
      this.#headerBytes = 0;
      this.#skip = this.#header.readUIntBE(0, 3);
      if (this.#header.readUInt8(3) === rstStream) this.#count();
    }
  }

  #count(): void {
    const now = this.now();
    const forgiven = ((now - this.#countedAtMs) / 1000) * resetsPerSecond;
    this.#resets = Math.max(0, this.#resets - forgiven) + 1;
    this.#countedAtMs = now;
    if (this.#resets > resetBurst) throw new Error("a flood of RST_STREAM frames");
  }
}
