/** A connection as the HTTP/2 library sees it: floods end it before the library hears of them. */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { messageOf } from "../../base/errors.js";
import { FloodGuard } from "./flood-guard.js";
import { ProtocolError } from "./frames.js";

/** What the library is given for `chunk`. A ProtocolError ends the connection. */
export type Rewrite = (chunk: Buffer) => readonly Buffer[];

interface Written {
  readonly chunk: Buffer;
}

/** What the library writes is left alone; what it reads goes through `rewrite`, or is what the client sent. */
export class GuardedConnection extends Duplex {
  readonly #socket: Socket;
  readonly #rewrite: Rewrite | undefined;
  readonly #guard = new FloodGuard();

  /** `opening`: what has been read of the socket before. */
  constructor(socket: Socket, opening: Buffer, rewrite?: Rewrite) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#rewrite = rewrite;
    socket.on("data", (chunk: Buffer) => {
      this.#forward(chunk);
    });
    socket.once("end", () => {
      this.push(null);
    });
    socket.once("error", (error) => {
      this.destroy(error);
    });
    socket.once("close", () => {
      this.destroy();
    });
    this.#forward(opening);
    socket.resume();
  }

  #forward(chunk: Buffer): void {
    if (this.destroyed) return;
    try {
      this.#guard.check(chunk);
      for (const bytes of this.#rewrite?.(chunk) ?? [chunk]) {
        if (!this.push(bytes)) this.#socket.pause();
      }
    } catch (error) {
      this.destroy(error instanceof Error ? error : new ProtocolError(messageOf(error)));
    }
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, this.#afterwards(done));
  }

  /** Frames that were written together leave together. */
  override _writev(chunks: readonly Written[], done: (error?: Error | null) => void): void {
    this.#socket.cork();
    for (const [index, { chunk }] of chunks.entries()) {
      this.#socket.write(chunk, index === chunks.length - 1 ? this.#afterwards(done) : undefined);
    }
    this.#socket.uncork();
  }

  #afterwards(done: (error?: Error | null) => void): (error?: Error | null) => void {
    return (error) => {
      if (error === undefined || error === null) this.#guard.answered();
      done(error);
    };
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // What was written before (a GOAWAY that says why) still goes out, unless the connection is broken anyway.
    if (error === null) this.#socket.destroySoon();
    else this.#socket.destroy();
    done(error);
  }
}
