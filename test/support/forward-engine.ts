import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { dockerSocket } from "./docker.js";

/** The engine's socket as a TCP port: for the shim the engine of another machine. */
export async function forwardEngine(): Promise<{ readonly endpoint: string } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const engine = connect(dockerSocket);
    for (const [from, to] of [
      [client, engine],
      [engine, client],
    ] as const) {
      sockets.add(from);
      from.on("error", () => undefined).on("close", () => to.destroy());
      from.pipe(to);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return {
    endpoint: `tcp://127.0.0.1:${address.port}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
