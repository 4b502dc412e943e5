/** The standard streams of a process inside the pod, in frames as in native/port-forward.c. */
import { Duplex } from "node:stream";
import { ShimError } from "../../lib/errors.js";
import type { ProcessStreams } from "../ports/engine.js";
import { connectFailure, systemErrorName } from "./dialer-protocol.js";

const lengthBytes = 4;
/** How long the service in the pod may take to read the last bytes after both sides have ended. */
const graceMs = 60_000;
/** Docker sometimes loses the end of the input of a process whose client is gone. */
const reset = Buffer.alloc(lengthBytes, 0xff);
/** How long it may take to arrive. */
const resetMs = 2_000;
/** The program writes frames of at most 64 KiB; a much longer one is not a frame. */
const frameLimitBytes = 16 * 1024 * 1024;

/** The end of each half is a frame. Destroying it, or an early end of the process, is a reset. */
export class RelayStream extends Duplex {
  readonly #process: ProcessStreams;
  readonly #length = Buffer.alloc(lengthBytes);
  #lengthSize = 0;
  #remaining = 0;
  #hasEnded = false;
  #isConnected = false;
  /** The process has exited, or its output is none of the program. */
  #isOver = false;
  /** Callbacks of pieces of output that wait for the reader. What comes at once from the engine may be several pieces. */
  #waiting: (() => void)[] = [];
  #grace: NodeJS.Timeout | undefined;
  #onConnect: { readonly resolve: () => void; readonly reject: (error: ShimError) => void } | undefined;

  constructor(process: ProcessStreams) {
    super({ allowHalfOpen: true });
    this.#process = process;
  }

  /** Settles when the process is connected, or with its error; before all else, once. */
  open(connectTimeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#onConnect = { resolve, reject };
      this.#process
        .readOutput((_, data) => this.#take(data, connectTimeoutMs))
        .then(
          () => {
            this.#fail(new ShimError("unavailable", "the connection was reset"));
          },
          (error: unknown) => {
            this.#fail(ShimError.from(error, "unavailable"));
          },
        );
    });
  }

  override _read(): void {
    this.#letGoOn();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const { input } = this.#process;
    // A frame without bytes is the end.
    if (chunk.length === 0) {
      done();
      return;
    }
    input.cork();
    input.write(lengthOf(chunk.length));
    input.write(chunk, done);
    input.uncork();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#process.input.write(lengthOf(0), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // After both ends the process still has to send the last bytes to the service, and then exits.
    if (error === null && this.#hasEnded && this.writableFinished) this.#closeAfter(graceMs);
    else if (!this.#isOver) {
      this.#process.input.end(reset);
      this.#closeAfter(resetMs);
    }
    this.#letGoOn();
    this.#onConnect?.reject(ShimError.from(error ?? new ShimError("cancelled", "the connection was closed")));
    done(error);
  }

  /** Returns a promise when the reader is slow. */
  #take(chunk: Buffer, connectTimeoutMs: number): Promise<void> | undefined {
    let isFull = false;
    for (let offset = 0; offset < chunk.length;) {
      if (this.#remaining > 0) {
        const data = chunk.subarray(offset, offset + this.#remaining);
        offset += data.length;
        this.#remaining -= data.length;
        if (!this.push(data)) isFull = true;
        continue;
      }
      const missing = lengthBytes - this.#lengthSize;
      const copied = chunk.copy(this.#length, this.#lengthSize, offset, offset + missing);
      this.#lengthSize += copied;
      offset += copied;
      if (this.#lengthSize < lengthBytes) break;
      this.#lengthSize = 0;
      this.#takeNumber(this.#length.readUInt32BE(0), connectTimeoutMs);
    }
    if (!isFull || this.destroyed) return undefined;
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  #letGoOn(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** The first number is the result of the connect, all others are lengths of frames. */
  #takeNumber(value: number, connectTimeoutMs: number): void {
    if (!this.#isConnected) {
      if (value > 0xffff) throw notAFrame();
      if (value !== 0) throw connectFailure(systemErrorName(value), connectTimeoutMs);
      this.#isConnected = true;
      this.#onConnect?.resolve();
      this.#onConnect = undefined;
      return;
    }
    if (value > frameLimitBytes || this.#hasEnded) throw notAFrame();
    this.#remaining = value;
    if (value > 0) return;
    this.#hasEnded = true;
    this.push(null);
  }

  #closeAfter(milliseconds: number): void {
    this.#grace = setTimeout(() => {
      this.#process.close();
    }, milliseconds);
    this.#grace.unref();
  }

  /** The process has exited. After both ends, or a reset, that is no error. */
  #fail(error: ShimError): void {
    this.#isOver = true;
    clearTimeout(this.#grace);
    this.#process.close();
    if (this.destroyed || (this.#hasEnded && this.writableFinished)) return;
    const opening = this.#onConnect;
    this.#onConnect = undefined;
    opening?.reject(error);
    this.destroy(opening === undefined ? error : undefined);
  }
}

function lengthOf(bytes: number): Buffer {
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt32BE(bytes, 0);
  return length;
}

function notAFrame(): ShimError {
  return new ShimError("unknown", "the port-forward program sent an invalid frame");
}
