/** `dockershim dial ADDRESS`: the far end of `dockershim forward`, run in the container for each connection. */
import { connect } from "node:net";
import type { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { ShimError } from "../lib/errors.js";

/** Joins standard input and output to the address until the server ends its side. The end of the input is passed on. */
export async function runDial(
  address: string,
  { stdin, stdout }: { readonly stdin: Readable; readonly stdout: Writable },
): Promise<number> {
  const socket = connect({ ...parseAddress(address), allowHalfOpen: true });
  socket.once("connect", () => {
    // After a failure there is no reader.
    stdin.pipe(socket);
    socket.pipe(stdout, { end: false });
  });
  try {
    await finished(socket, { writable: false });
    return 0;
  } catch (error) {
    throw new ShimError("unavailable", `connect to "${address}": ${ShimError.from(error).message}`);
  } finally {
    socket.destroy();
    // Else the process waits for more of it.
    stdin.destroy();
  }
}

function parseAddress(
  text: string,
): { readonly path: string } | { readonly host: string; readonly port: number } {
  if (text.startsWith("unix:///")) return { path: text.slice("unix://".length) };
  const [, bracketed, plain, port] = /^(?:\[(.+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port) > 65535) {
    throw new ShimError("invalid", `connect to ${JSON.stringify(text)}: must be unix:///PATH or HOST:PORT`);
  }
  return { host, port: Number(port) };
}
