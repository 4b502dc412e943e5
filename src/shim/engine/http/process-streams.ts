/** The hijacked connection of an exec or of an attach as streams. */
import type { Socket } from "node:net";
import { linkAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { ProcessStreams, TakeOutput } from "../../ports/engine.js";
import { OutputFrames } from "./output-frames.js";

const action = "read process output";

/**
 * Takes over `socket`. The streams end with the process, with `close`, and when `signal` aborts; then reading the
 * output throws the signal's reason. Output is read by the socket's events, not by an iterator: that costs a promise for
 * each piece, and half as much processor time again.
 */
export function openProcessStreams(
  socket: Socket,
  options: { readonly tty: boolean },
  signal: AbortSignal,
): ProcessStreams {
  let failure: ShimError | undefined;
  // Also for whoever only writes: a process that ends while its input is written to is no reason to crash.
  socket.on("error", (error) => {
    failure ??= brokenConnection(error);
  });
  const end = (reason: ShimError): void => {
    failure ??= reason;
    socket.destroy();
  };
  const link = linkAbort(signal, () => {
    end(ShimError.from(signal.reason));
  });
  socket.once("close", () => {
    link[Symbol.dispose]();
  });

  const readOutput = (take: TakeOutput): Promise<void> => {
    const frames = new OutputFrames();
    const passOn = (chunk: Buffer): Promise<unknown> | undefined =>
      options.tty ? take("stdout", chunk, false) : frames.push(chunk, take);
    return new Promise((resolve, reject) => {
      const fail = (error: unknown): void => {
        reject(ShimError.from(failure ?? error, "unavailable"));
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
      socket.once("end", () => {
        try {
          if (!options.tty) frames.end();
          resolve();
        } catch (error) {
          fail(error);
        }
      });
      const onClose = (): void => {
        reject(failure ?? brokenConnection());
      };
      if (socket.closed) onClose();
      else socket.once("close", onClose);
    });
  };

  return {
    input: socket,
    readOutput,
    close: () => {
      end(new ShimError("cancelled", `${action}: the connection was closed`));
    },
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
