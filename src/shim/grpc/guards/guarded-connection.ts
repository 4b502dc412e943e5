/** A connection as the HTTP/2 library sees it: floods end it before the library hears of them. */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { messageOf } from "../../lib/errors.js";
import { FloodGuard } from "./flood-guard.js";
import { ProtocolError } from "../authority/frames.js";

/** What the library is given for `chunk`. A ProtocolError ends the connection. */
export type Rewrite = (chunk: Buffer) => readonly Buffer[];

export interface GuardedConnectionOptions {
  readonly rewrite?: Rewrite | undefined;
  /** How long a client may leave unread what was written. */
  readonly unreadMs?: number | undefined;
}

interface Written {
  readonly chunk: Buffer;
}

/** How long a client may take to read what was written before the connection was closed. */
const closeGraceMs = 1_000;

/** What the library writes is left alone; what it reads goes through `rewrite`, or is what the client sent. */
export class GuardedConnection extends Duplex {
  readonly #socket: Socket;
  readonly #rewrite: Rewrite | undefined;
  readonly #unreadMs: number;
  readonly #guard = new FloodGuard();
  /** What was read, and is passed on in the next turn of the event loop or when the connection is released. */
  #rest: Buffer | undefined;
  #held = false;
  /** The library has not yet taken what it was given. */
  #full = false;

  /** `opening`: what has been read of the socket before. */
  constructor(
    socket: Socket,
    opening: Buffer,
    { rewrite, unreadMs = 120_000 }: GuardedConnectionOptions = {},
  ) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#rewrite = rewrite;
    this.#unreadMs = unreadMs;
    socket.on("data", (chunk: Buffer) => {
      this.#forward(chunk);
    });
    socket.once("end", () => {
      // Nobody could be answered any more.
      this.#rest = undefined;
      this.push(null);
    });
    socket.once("error", (error) => {
      this.destroy(error);
    });
    socket.once("close", () => {
      this.destroy();
    });
    // A flood in the opening ends it before the library listens, which never does while the server stops.
    this.on("error", () => undefined);
    this.#forward(opening);
    this.#resume();
  }

  /** Nothing more is read until `release`. */
  hold(): void {
    this.#held = true;
    this.#socket.pause();
  }

  /** May be called from what the library emits. */
  release(): void {
    this.#held = false;
    // The library may be reading just now.
    setImmediate(() => this.#continue());
  }

  #forward(chunk: Buffer): void {
    if (this.destroyed) return;
    try {
      const length = this.#guard.check(chunk);
      const passed = chunk.subarray(0, length);
      for (const bytes of this.#rewrite?.(passed) ?? [passed]) {
        if (!this.push(bytes)) this.#full = true;
      }
      if (length < chunk.length) {
        this.#rest = chunk.subarray(length);
        setImmediate(() => this.#continue());
      }
      if (this.#full || this.#rest !== undefined) this.#socket.pause();
    } catch (error) {
      this.destroy(error instanceof Error ? error : new ProtocolError(messageOf(error)));
    }
  }

  #continue(): void {
    if (this.#held || this.destroyed) return;
    const rest = this.#rest;
    this.#rest = undefined;
    if (rest !== undefined) this.#forward(rest);
    this.#resume();
  }

  #resume(): void {
    if (!this.#held && !this.#full && this.#rest === undefined && !this.destroyed) this.#socket.resume();
  }

  override _read(): void {
    this.#full = false;
    this.#resume();
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
    // The library waits for the streams of a client that answers no PING; they wait for the client.
    const timer = setTimeout(() => {
      this.destroy(new Error("the client does not read"));
    }, this.#unreadMs).unref();
    return (error) => {
      clearTimeout(timer);
      if (error === undefined || error === null) this.#guard.answered();
      done(error);
    };
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // What was written before (a GOAWAY that says why) still goes out, unless the connection is broken anyway.
    if (error === null && !this.#socket.destroyed) {
      this.#socket.destroySoon();
      // A client that lives and does not read would keep it for ever.
      const timer = setTimeout(() => this.#socket.destroy(), closeGraceMs).unref();
      this.#socket.once("close", () => clearTimeout(timer));
    } else {
      this.#socket.destroy();
    }
    done(error);
  }
}
