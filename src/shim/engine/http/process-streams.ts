/** The hijacked connection of an exec or of an attach as streams. */
import type { Socket } from "node:net";
import { linkAbort } from "../../../lib/abort.js";
import { ShimError } from "../../../lib/errors.js";
import type { ProcessStreams, TakeOutput } from "../../ports/engine.js";

const action = "read process output";

/**
 * Takes over `socket`. The streams end with the process, with `close`, and when `signal` aborts; then reading
 * the output throws the signal's reason. Output is read by the socket's events, not by an iterator: that
 * costs a promise for each piece, and half as much processor time again.
 */
export function openProcessStreams(
  socket: Socket,
  options: { readonly tty: boolean },
  signal: AbortSignal,
): ProcessStreams {
  // Made only for who asks: an error costs its stack, and most sessions end without one.
  let failure: (() => ShimError) | undefined;
  // Also for callers that only write: without a listener, a process that ends while its input is written
  // would be a crash.
  socket.on("error", (error) => {
    failure ??= () => brokenConnection(error);
  });
  const end = (reason: () => ShimError): void => {
    failure ??= reason;
    socket.destroy();
  };
  const link = linkAbort(signal, () => end(() => ShimError.from(signal.reason)));
  socket.once("close", () => link[Symbol.dispose]());

  const readOutput = (take: TakeOutput): Promise<void> => {
    const frames = new OutputFrames();
    const passOn = (chunk: Buffer): Promise<unknown> | undefined =>
      options.tty ? take("stdout", chunk, false) : frames.push(chunk, take);
    return new Promise((resolve, reject) => {
      const fail = (error: unknown): void => {
        reject(ShimError.from(failure?.() ?? error, "unavailable"));
        socket.destroy();
      };
      socket.on("data", (chunk: Buffer) => {
        try {
          const wait = passOn(chunk);
          if (wait === undefined) return;
          socket.pause();
          wait.then(() => socket.resume(), fail);
        } catch (error) {
          fail(error);
        }
      });
      const onClose = (): void => {
        reject(failure?.() ?? brokenConnection());
      };
      socket.once("end", () => {
        try {
          if (!options.tty) frames.end();
          socket.off("close", onClose);
          resolve();
        } catch (error) {
          fail(error);
        }
      });
      if (socket.closed) onClose();
      else socket.once("close", onClose);
    });
  };

  return {
    input: socket,
    readOutput,
    close: () => end(() => new ShimError("cancelled", `${action}: the connection was closed`)),
  };
}

function brokenConnection(cause?: Error): ShimError {
  return new ShimError(
    "unavailable",
    `${action}: the connection to the Docker Engine broke`,
    {},
    cause === undefined ? {} : { cause },
  );
}

const headerBytes = 8;
/** Docker writes frames of at most some 32 KiB; beyond this it is not a frame but something else. */
const frameLimitBytes = 256 * 1024 * 1024;
/** Limit of a message in which the engine reports an error. */
const reportLimitBytes = 4096;

/**
 * Splits the stream into frames of `type, 0, 0, 0, length (big endian), data`. Nothing is copied or held
 * back: a frame comes in as many pieces as it arrives in. Throws `unavailable` when the stream ends within a
 * frame, `unknown` for an error that the engine reports (type 3) and for what is not a frame.
 */
export class OutputFrames {
  readonly #header = Buffer.alloc(headerBytes);
  #headerSize = 0;
  #type = 0;
  #remaining = 0;
  #report = "";

  /** Hands over all pieces in `chunk`; a promise when a taker wants the next chunk to wait. */
  push(chunk: Buffer, take: TakeOutput): Promise<unknown> | undefined {
    let waits: Promise<void>[] | undefined;
    try {
      for (let offset = 0; offset < chunk.length;) {
        if (this.#remaining === 0) {
          offset += this.#readHeader(chunk, offset);
          continue;
        }
        const data = chunk.subarray(offset, offset + this.#remaining);
        offset += data.length;
        this.#remaining -= data.length;
        if (this.#type === 3) {
          this.#noteReport(data);
          continue;
        }
        const wait = take(this.#type === 2 ? "stderr" : "stdout", data, this.#remaining === 0);
        if (wait !== undefined) (waits ??= []).push(wait);
      }
    } catch (error) {
      // The caller does not wait for them any more; a later failure must not count as unhandled.
      void Promise.allSettled(waits ?? []);
      throw error;
    }
    return waits === undefined ? undefined : Promise.all(waits);
  }

  /** To be called at the end of the stream. */
  end(): void {
    if (this.#remaining === 0 && this.#headerSize === 0) return;
    throw new ShimError("unavailable", "read process output: the connection to the Docker Engine broke");
  }

  /** The bytes that it took of `chunk`. */
  #readHeader(chunk: Buffer, offset: number): number {
    const header = this.#header;
    const copied = chunk.copy(header, this.#headerSize, offset, offset + headerBytes - this.#headerSize);
    this.#headerSize += copied;
    if (this.#headerSize < headerBytes) return copied;
    this.#headerSize = 0;
    this.#type = header.readUInt8(0);
    this.#remaining = header.readUInt32BE(4);
    if (this.#type > 3 || header.readUIntBE(1, 3) !== 0 || this.#remaining > frameLimitBytes)
      throw new ShimError("unknown", "read process output: the engine sent something that is not a frame");
    return copied;
  }

  #noteReport(data: Buffer): void {
    if (this.#report.length < reportLimitBytes) this.#report += data.toString("utf8");
    if (this.#remaining > 0) return;
    throw new ShimError("unknown", `read process output: ${this.#report.trim().slice(0, reportLimitBytes)}`);
  }
}
