import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { EngineClient, type EngineRequest } from "../../../../src/shim/engine/http/client.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const get: EngineRequest = { action: "read the thing", method: "GET", path: ["thing"], unversioned: true };
const put: EngineRequest = { ...get, action: "send the thing", method: "PUT" };
const never = new AbortController().signal;
const empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/** A server of bytes: `answer` is called for each piece that arrives. */
async function startServer(answer: (socket: Socket, received: string) => void) {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "engine.sock");
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    let received = "";
    socket.on("error", () => undefined);
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
      answer(socket, received);
    });
  }).listen(path);
  await once(server, "listening");
  const client = new EngineClient({ endpoint: { kind: "unix", path }, shortTimeoutMs: 20_000 });
  return {
    client,
    sockets,
    [Symbol.asyncDispose]: async () => {
      client.close();
      for (const socket of sockets) socket.destroy();
      server.close();
      await directory[Symbol.asyncDispose]();
    },
  };
}

describe("connections to the engine", () => {
  test("bytes that were not asked for end a kept connection, and answer no request", async () => {
    await using server = await startServer((socket) => socket.write(empty));
    await server.client.request(get, never);
    server.sockets[0]?.write("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    await once(server.sockets[0] as Socket, "close");
    assert.equal((await server.client.request(get, never)).status, 200);
    assert.equal(server.sockets.length, 2);
  });

  for (const [what, answer] of [
    ["says that it closes", `HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`],
    ["says that it closes it soon", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n"],
    ["sends more than its answer", `${empty}more`],
  ] as const)
    test(`a connection whose engine ${what} is closed`, async () => {
      await using server = await startServer((socket) => socket.write(answer));
      assert.equal((await server.client.request(get, never)).status, 200);
      assert.equal((await server.client.request(get, never)).status, 200);
      assert.equal(server.sockets.length, 2);
    });

  test("a header that would begin another one is not sent", async () => {
    await using server = await startServer((socket) => socket.write(empty));
    const headers = { "X-Registry-Auth": "a\r\nX-Other: b" };
    await assert.rejects(
      server.client.request({ ...get, headers }, never),
      /invalid header X-Registry-Auth$/,
    );
    assert.equal(server.sockets.length, 0);
  });

  test("a stream is sent in chunks", async () => {
    let all = "";
    await using server = await startServer((socket, received) => {
      all = received;
      if (received.endsWith("\r\n0\r\n\r\n")) socket.write(empty);
    });
    const tar = Readable.from([Buffer.from("hello"), Buffer.alloc(0), Buffer.from("x".repeat(300_000))]);
    await server.client.request({ ...put, tar }, never);
    const [head = "", body = ""] = all.split("\r\n\r\n");
    assert.match(head, /^PUT \/thing HTTP\/1\.1\r\n/);
    assert.match(head, /^Transfer-Encoding: chunked$/m);
    assert.match(head, /^Connection: keep-alive$/m);
    assert.equal(body, `5\r\nhello\r\n493e0\r\n${"x".repeat(300_000)}\r\n0`);
  });

  test("an answer may come before all of a stream is sent; its connection is used no more", async () => {
    await using server = await startServer((socket) => socket.write(empty));
    const tar = new PassThrough();
    tar.write("some");
    assert.equal((await server.client.request({ ...put, tar }, never)).status, 200);
    await server.client.request(get, never);
    assert.equal(server.sockets.length, 2);
    if (!tar.closed) await once(tar, "close", { signal: AbortSignal.timeout(10_000) });
  });

  test("streams leave nothing on the connection that they were sent on", async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): unknown => warnings.push(warning);
    process.on("warning", note);
    await using server = await startServer((socket, received) => {
      if (received.endsWith("\r\n0\r\n\r\n")) socket.write(empty);
    });
    for (let sent = 0; sent < 12; sent += 1)
      await server.client.request({ ...put, tar: Readable.from([Buffer.from("x")]) }, never);
    await new Promise(setImmediate);
    process.off("warning", note);
    assert.deepEqual([server.sockets.length, warnings], [1, []]);
  });

  test("a stream that fails ends its request", async () => {
    await using server = await startServer(() => undefined);
    const tar = new PassThrough();
    const sent = server.client.request({ ...put, tar }, never);
    tar.destroy(new Error("disk gone"));
    await assert.rejects(sent, /disk gone/);
  });

  test("a body that is not read makes the engine wait", async () => {
    await using server = await startServer((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      for (let sent = 0; sent < 40; sent += 1) socket.write(Buffer.alloc(100_000));
    });
    const answer = await server.client.open(get, never);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.ok((server.sockets[0]?.writableLength ?? 0) > 1_000_000);
    answer.destroy();
  });

  test("hijack() hands over the connection with what was sent behind the head", async () => {
    await using server = await startServer((socket, received) => {
      if (received.endsWith("bye")) socket.end(", later");
      else socket.write("HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nat once");
    });
    const socket = await server.client.hijack({ ...get, method: "POST" }, never);
    socket.write("bye");
    assert.equal(await text(socket), "at once, later");
  });

  test("hijack() throws the refusal of an engine that stays with HTTP", async () => {
    const refusal = 'HTTP/1.1 409 Conflict\r\nContent-Length: 21\r\n\r\n{"message":"not now"}';
    await using server = await startServer((socket) => socket.write(refusal));
    await assert.rejects(server.client.hijack({ ...get, method: "POST" }, never), (error) => {
      return error instanceof ShimError && error.kind === "precondition" && error.message === "not now";
    });
  });
});
