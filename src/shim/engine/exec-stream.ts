/** The hijacked connection of an exec as streams. */
import type { Socket } from "node:net";
import { ShimError } from "../base/errors.js";
import type { OutputChunk, ProcessStreams } from "../ports/engine.js";
import { demultiplex } from "./demultiplex.js";

const action = "read process output";

/**
 * Takes over `socket`. The streams end with the process, with `close`, and when `signal` aborts; then reading the
 * output throws the signal's reason.
 */
export function openProcessStreams(
  socket: Socket,
  options: { readonly tty: boolean },
  signal: AbortSignal,
): ProcessStreams {
  let failure: ShimError | undefined;
  // Also for whoever only writes: a process that ends while its input is written to is no reason to crash.
  socket.on("error", (error) => {
    failure ??= new ShimError(
      "unavailable",
      `${action}: the connection to the Docker Engine broke`,
      {},
      { cause: error },
    );
  });
  const end = (reason: ShimError): void => {
    failure ??= reason;
    socket.destroy();
  };
  const onAbort = (): void => {
    end(ShimError.from(signal.reason));
  };
  signal.addEventListener("abort", onAbort, { once: true });
  socket.once("close", () => {
    signal.removeEventListener("abort", onAbort);
  });
  if (signal.aborted) onAbort();

  async function* read(): AsyncGenerator<Buffer, void, undefined> {
    try {
      // The end of the output must not close the input: the iterator would.
      for await (const chunk of socket.iterator({ destroyOnReturn: false })) yield chunk as Buffer;
    } catch (error) {
      throw failure ?? ShimError.from(error, "unavailable");
    }
    if (failure !== undefined) throw failure;
  }

  async function* asStdout(): AsyncGenerator<OutputChunk, void, undefined> {
    for await (const data of read()) yield { stream: "stdout", data };
  }

  return {
    input: socket,
    output: options.tty ? asStdout() : demultiplex(read()),
    close: () => {
      end(new ShimError("cancelled", `${action}: the connection was closed`));
    },
  };
}
