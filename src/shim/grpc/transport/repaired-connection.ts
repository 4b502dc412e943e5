/** A connection whose requests are repaired on their way to the HTTP/2 library. */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { messageOf } from "../../base/errors.js";
import { ProtocolError } from "./frames.js";
import type { RequestRewriter } from "./request-rewriter.js";

/** `socket` as the HTTP/2 library sees it: what it reads has gone through `rewriter`, what it writes is left alone. */
export class RepairedConnection extends Duplex {
  readonly #socket: Socket;
  readonly #rewriter: RequestRewriter;

  /** `opening`: what has been read of the socket before. */
  constructor(socket: Socket, rewriter: RequestRewriter, opening: Buffer) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#rewriter = rewriter;
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
      for (const bytes of this.#rewriter.rewrite(chunk)) {
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
    this.#socket.write(chunk, done);
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
