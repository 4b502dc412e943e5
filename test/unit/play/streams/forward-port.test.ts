import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { dialFromHere } from "../../../../src/play/cri/dial.js";
import { forwardPort } from "../../../../src/play/streams/forward-port.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { fakePod } from "../../../fakes/streaming-sessions.js";
import { startStreamingBed } from "../../../support/streaming-bed.js";

const never = new AbortController().signal;

async function listen(serve: (socket: Socket) => void): Promise<{ readonly port: number } & Disposable> {
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

async function dialTo(port: number): Promise<Socket> {
  const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  await once(socket, "connect");
  return socket;
}

/** A local port whose connections go through the streaming server to what `inPod` serves; with the results. */
async function forwarded(inPod: (socket: Socket) => void): Promise<
  {
    readonly client: () => Promise<Socket>;
    readonly results: Promise<void>[];
    readonly empty: () => Promise<void>;
  } & AsyncDisposable
> {
  const bed = await startStreamingBed();
  const pod = await listen(inPod);
  const results: Promise<void>[] = [];
  const local = await listen((socket) => {
    const session = fakePod(() => dialTo(pod.port), []);
    results.push(forwardPort(bed.server.offer(session), 80, socket, dialFromHere, never));
  });
  return {
    client: () => dialTo(local.port),
    results,
    empty: () => bed.empty(),
    async [Symbol.asyncDispose]() {
      local[Symbol.dispose]();
      pod[Symbol.dispose]();
      await bed[Symbol.asyncDispose]();
    },
  };
}

test("forwardPort() carries the end of a client's data to the pod, and the rest of the answer back", async () => {
  await using at = await forwarded((socket) => {
    let bytes = 0;
    socket.on("data", (chunk: Buffer) => (bytes += chunk.length));
    socket.once("end", () => socket.end(`${bytes} bytes`));
  });
  const client = await at.client();
  client.end(Buffer.alloc(500_000));
  assert.equal(await text(client), "500000 bytes");
  await Promise.all(at.results);
  await at.empty();
});

test("forwardPort() ends when the pod ends the connection, although the client keeps it open", async () => {
  await using at = await forwarded((socket) => socket.end("bye"));
  const client = await at.client();
  client.on("error", () => undefined);
  assert.equal(await text(client), "bye");
  await Promise.allSettled(at.results);
  await at.empty();
});

test("forwardPort() ends when the client resets its connection", async () => {
  const arrived = new EventEmitter();
  await using at = await forwarded((socket) => socket.once("data", () => arrived.emit("data")));
  const client = await at.client();
  client.write("x");
  await once(arrived, "data");
  client.resetAndDestroy();
  await Promise.allSettled(at.results);
  await at.empty();
});

test("forwardPort() rejects with the server's reason, escaped, and disconnects the client", async () => {
  await using bed = await startStreamingBed();
  const pod = fakePod(() => Promise.reject(new ShimError("unavailable", "nothing listens\u001b")), []);
  using local = await listen(() => undefined);
  const socket = await dialTo(local.port);
  await assert.rejects(
    forwardPort(bed.server.offer(pod), 80, socket, dialFromHere, never),
    /nothing listens\\u\{1b\}/,
  );
  assert.ok(socket.destroyed);
});
