/** Joins a socket to a process that is run in a container. */
import type { Socket } from "node:net";
import { linkAbort } from "../lib/abort.js";
import { ShimError } from "../lib/errors.js";
import type { ExecCalls } from "../shim/ports/engine.js";

/** What is kept of the process's standard error. */
const longestTextBytes = 2048;

/**
 * Until the process has ended, or the socket is closed. The end of the socket's input is passed on alone, and who reads
 * slowly makes the other side wait. Rejects with what the process has said when it failed.
 */
export async function bridge(
  engine: Pick<ExecCalls, "createExec" | "startExec" | "inspectExec">,
  container: string,
  command: readonly string[],
  socket: Socket,
  signal: AbortSignal,
): Promise<void> {
  const options = { command, tty: false, stdin: true, stdout: true, stderr: true };
  const id = await engine.createExec(container, options, signal);
  const streams = await engine.startExec(id, options, signal);
  using _ = linkAbort(signal, () => socket.destroy());
  const onClose = (): void => {
    streams.close();
  };
  socket.once("close", onClose);
  if (socket.destroyed) onClose();
  let said = "";
  try {
    socket.pipe(streams.input);
    await streams.readOutput((stream, data) => {
      if (stream === "stderr") {
        said = (said + data.toString()).slice(0, longestTextBytes);
        return undefined;
      }
      return socket.write(data) ? undefined : drainOf(socket);
    });
  } catch (error) {
    // The client has left, and needs no more.
    if (socket.destroyed) return;
    throw error;
  } finally {
    socket.off("close", onClose);
    streams.close();
    socket.end();
  }
  if (said !== "") {
    throw new ShimError(
      "unavailable",
      `in container "${container}": ${said.trim().replaceAll(/\s*\n\s*/g, " ")}`,
    );
  }
}

function drainOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off("drain", done);
      socket.off("close", done);
      resolve();
    };
    socket.once("drain", done);
    socket.once("close", done);
  });
}
