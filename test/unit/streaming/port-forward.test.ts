import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, test } from "node:test";
import { createWebSocketStream } from "ws";
import { ShimError } from "../../../src/lib/errors.js";
import { fakePod, type FakePod } from "../../fakes/streaming-sessions.js";
import { until } from "../../fakes/turns.js";
import { SpdyClient } from "../../support/spdy-client.js";
import { startStreamingBed, type StreamingBed } from "../../support/streaming-bed.js";
import { openSpdy, openWebSocket, type WebSocketClient } from "../../support/streaming-client.js";

/** A TCP server in place of the pod's, which gives each connection to `serve`. */
async function listenInPod(
  serve: (socket: Socket) => void,
): Promise<{ pod: FakePod; sockets: Set<Socket> } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const pod = fakePod(
    async (wanted) => {
      if (wanted === 1) throw new ShimError("unavailable", "connection refused");
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      await once(socket, "connect");
      return socket;
    },
    [80, 81],
  );
  return {
    pod,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const echo = (socket: Socket): void => void socket.pipe(socket);

let requestId = 0;

/** As client-go opens a connection. */
function openPair(client: SpdyClient, port = 80) {
  requestId += 1;
  const headers = { port: String(port), requestID: String(requestId) };
  const error = client.open({ streamType: "error", ...headers });
  error.end();
  return { error, data: client.open({ streamType: "data", ...headers }) };
}

const transports: readonly (readonly [string, (bed: StreamingBed, pod: FakePod) => Promise<SpdyClient>])[] = [
  ["SPDY", (bed, pod) => openSpdy(bed.server.offer(pod), ["portforward.k8s.io"])],
  [
    "the WebSocket tunnel",
    async (bed, pod) => {
      const { ws } = await openWebSocket(bed.server.offer(pod), "SPDY/3.1+portforward.k8s.io");
      return new SpdyClient(createWebSocketStream(ws));
    },
  ],
];

for (const [name, open] of transports) {
  describe(`port-forward over ${name}`, () => {
    test("carries many connections at once, and closes all of them", async () => {
      await using bed = await startStreamingBed();
      await using at = await listenInPod(echo);
      const client = await open(bed, at.pod);
      const pairs = Array.from({ length: 40 }, () => openPair(client));
      const answers = pairs.map(async ({ data, error }, index) => {
        data.write(`hello ${String(index)}`);
        data.end();
        assert.equal(await data.text(), `hello ${String(index)}`);
        assert.equal(await error.text(), "");
      });
      await Promise.all(answers);
      await until("the pod's connections ended", () => at.pod.open.size === 0 && at.sockets.size === 0);
      assert.equal(at.pod.accepted.length, 40);
    });

    test("passes on the client's half-close, and an answer after it", async () => {
      await using bed = await startStreamingBed();
      await using at = await listenInPod((socket) => {
        let request = "";
        socket.on("data", (chunk: Buffer) => (request += chunk.toString()));
        socket.once("end", () => setImmediate(() => socket.end(`answer to ${request}`)));
      });
      const { data } = openPair(await open(bed, at.pod));
      data.end("request");
      assert.equal(await data.text(), "answer to request");
    });

    // kubectl before 1.32 closes the local connection only at the end of the error stream.
    test("passes on the pod's half-close, ends the error stream, and sends data of the client after it", async () => {
      await using bed = await startStreamingBed();
      let received: Promise<string> | undefined;
      await using at = await listenInPod((socket) => {
        received = text(socket);
        socket.end("bye");
      });
      const { data, error } = openPair(await open(bed, at.pod));
      error.received.resume();
      assert.equal(await data.text(), "bye");
      await until("the error stream ended", () => error.received.readableEnded);
      assert.equal(at.pod.open.size, 1);
      data.end("afterwards");
      await until("the connection ended", () => at.pod.open.size === 0);
      assert.equal(await received, "afterwards");
    });

    test("reports a refused port, and only that connection ends", async () => {
      await using bed = await startStreamingBed();
      await using at = await listenInPod(echo);
      const client = await open(bed, at.pod);
      const refused = openPair(client, 1);
      assert.equal(await refused.error.text(), "error forwarding port 1 to pod s1, uid : connection refused");
      assert.equal(await refused.data.text(), "");
      const good = openPair(client);
      good.data.end("still here");
      assert.equal(await good.data.text(), "still here");
    });

    test("resets the client's stream when the pod resets the connection, without a message", async () => {
      await using bed = await startStreamingBed();
      await using at = await listenInPod((socket) => socket.once("data", () => socket.resetAndDestroy()));
      const client = await open(bed, at.pod);
      const { data, error } = openPair(client);
      data.write("x");
      assert.equal(await error.text(), "");
      await until("the stream is reset", () => data.resetStatus !== undefined);
      assert.equal(client.goAway, undefined);
    });

    test("ends the pod's connection when the client resets its stream", async () => {
      await using bed = await startStreamingBed();
      await using at = await listenInPod(echo);
      const { data } = openPair(await open(bed, at.pod));
      data.write("x");
      await once(data.received, "data");
      data.reset();
      await until("the connection ended", () => at.pod.open.size === 0 && at.sockets.size === 0);
    });

    test("ends all of the pod's connections when the client disconnects", async () => {
      await using bed = await startStreamingBed();
      await using at = await listenInPod(echo);
      const client = await open(bed, at.pod);
      for (let count = 0; count < 5; count += 1) openPair(client).data.write("x");
      await until("they are connected", () => at.sockets.size === 5);
      client.socket.destroy();
      await bed.empty();
      await until("they ended", () => at.pod.open.size === 0 && at.sockets.size === 0);
    });

    test("ends a connection attempt when the client disconnects", async () => {
      await using bed = await startStreamingBed();
      let attempt: AbortSignal | undefined;
      const pod = fakePod(async (_port, signal): Promise<Duplex> => {
        attempt = signal;
        await once(signal, "abort");
        throw signal.reason;
      });
      const client = await open(bed, pod);
      openPair(client);
      await until("it is tried", () => attempt !== undefined);
      client.socket.destroy();
      await bed.empty();
      assert.equal(attempt?.aborted, true);
    });
  });
}

describe("the streams of a port-forward over SPDY", () => {
  test("are a pair without a request id when the data stream is the next one", async () => {
    await using bed = await startStreamingBed();
    await using at = await listenInPod(echo);
    const client = await openSpdy(bed.server.offer(at.pod), ["portforward.k8s.io"]);
    client.open({ streamType: "error", port: "80" });
    const data = client.open({ streamType: "data", port: "80" });
    data.end("x");
    assert.equal(await data.text(), "x");
  });

  for (const [name, headers] of [
    ["without a port", { streamType: "data" }],
    ["with port 0", { streamType: "data", port: "0" }],
    ["with a port above 65535", { streamType: "data", port: "65536" }],
    ["with an invalid port", { streamType: "data", port: "http" }],
    ["without a type", { port: "80" }],
    ["of another type", { streamType: "stdin", port: "80" }],
    ["that is open already", { streamType: "error", port: "80", requestID: "twice" }],
  ] as const) {
    test(`are refused one by one: a stream ${name}`, async () => {
      await using bed = await startStreamingBed();
      const client = await openSpdy(bed.server.offer(fakePod(() => assert.fail())), ["portforward.k8s.io"]);
      client.open({ streamType: "error", port: "80", requestID: "twice" });
      const refused = client.open(headers);
      await until("it is refused", () => refused.resetStatus !== undefined);
      assert.equal(refused.resetStatus, 3);
      assert.equal(client.goAway, undefined);
    });
  }

  test("time out when the second one is not opened", async () => {
    await using bed = await startStreamingBed({ streamCreationTimeoutMs: 20 });
    const client = await openSpdy(bed.server.offer(fakePod(() => assert.fail())), ["portforward.k8s.io"]);
    const error = client.open({ streamType: "error", port: "80", requestID: "1" });
    const data = client.open({ streamType: "data", port: "80", requestID: "2" });
    const reason = "timed out waiting for the data stream";
    assert.equal(await error.text(), `error forwarding port 80 to pod s1, uid : ${reason}`);
    await until("the other is reset", () => data.resetStatus !== undefined);
  });
});

describe("port-forward over WebSocket channels", () => {
  const asBase64 = (client: WebSocketClient, channel: number): string =>
    client.messages
      .filter((message) => message.readUInt8(0) - 48 === channel)
      .map((message) => Buffer.from(message.toString("latin1", 1), "base64").toString("latin1"))
      .join("");

  for (const [protocol, base64] of [
    ["v4.channel.k8s.io", false],
    ["v4.base64.channel.k8s.io", true],
    ["", false],
  ] as const) {
    test(`speaks ${JSON.stringify(protocol)}: two channels per port, each begins with the port`, async () => {
      await using bed = await startStreamingBed();
      await using at = await listenInPod(echo);
      const client = await openWebSocket(bed.server.offer(at.pod), protocol);
      const seen = (channel: number): string =>
        base64 ? asBase64(client, channel) : Buffer.from(client.channel(channel)).toString();
      client.ws.send(base64 ? `2${Buffer.from("second").toString("base64")}` : Buffer.from("\x02second"));
      await until("the answer is there", () => seen(2) === "\x51\0second");
      assert.deepEqual([seen(0), seen(1), seen(3)], ["\x50\0", "\x50\0", "\x51\0"]);
      client.ws.terminate();
      await bed.empty();
      await until("the connections ended", () => at.pod.open.size === 0);
    });
  }

  test("reports a refused port, and the others continue", async () => {
    await using bed = await startStreamingBed();
    await using at = await listenInPod(echo);
    const session: FakePod = { ...at.pod, ports: [1, 80] };
    const client = await openWebSocket(bed.server.offer(session), "v4.channel.k8s.io");
    await until("the message has arrived", () => client.channel(1).includes("refused"));
    assert.equal(client.channel(1), "\x01\0error forwarding port 1 to pod s1, uid : connection refused");
    client.ws.send(Buffer.from("\x02x"));
    await until("the other answers", () => client.channel(2) === "\x50\0x");
  });

  test("closes in order when the pod has ended all connections", async () => {
    await using bed = await startStreamingBed();
    await using at = await listenInPod((socket) => void socket.end("bye"));
    const client = await openWebSocket(bed.server.offer(at.pod), "v4.channel.k8s.io");
    assert.equal(await client.closed, 1000);
    assert.equal(client.channel(0), "\x50\0bye");
    assert.equal(at.pod.open.size, 0);
    await bed.empty();
  });

  for (const [name, protocol, ports] of [
    ["without ports", "v4.channel.k8s.io", []],
    ["with more ports than channels", "v4.channel.k8s.io", new Array<number>(128).fill(80)],
    ["with more ports than base64 channels", "v4.base64.channel.k8s.io", new Array<number>(40).fill(80)],
  ] as const) {
    test(`is refused ${name}`, async () => {
      await using bed = await startStreamingBed();
      const pod = fakePod(() => assert.fail(), ports);
      await assert.rejects(openWebSocket(bed.server.offer(pod), protocol), /400/);
      await bed.empty();
    });
  }
});
