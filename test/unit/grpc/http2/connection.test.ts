import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { silentLogger } from "../../../../src/lib/log.js";
import { isKind } from "../../../../src/lib/errors.js";
import { GrpcConnection } from "../../../../src/shim/grpc/http2/connection.js";
import type { GrpcStream } from "../../../../src/shim/grpc/http2/grpc-stream.js";
import { UnfinishedRequests } from "../../../../src/shim/grpc/http2/unfinished-requests.js";
import { status } from "../../../../src/shim/grpc/status.js";
import { turns, until } from "../../../fakes/turns.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { Http2Client } from "../http2-client.js";
import {
  clientPreface,
  flags,
  frame,
  headers,
  indexed,
  literal,
  message,
  requestFields,
  settings,
  types,
  versionRequest,
  type Coding,
  type Indexing,
} from "../http2-writer.js";
import { startTestServer } from "../test-server.js";

const socketPath = "/var/run/x.sock";
/** The index of the newest entry of the dynamic table. */
const newestEntry = 62;
const nothing = Buffer.alloc(0);

function startVersionServer() {
  return startTestServer({ Version: (request) => Promise.resolve({ version: request.version }) });
}

/** VersionRequest and VersionResponse have their version in field 1. */
function version(text: string): Buffer {
  return Buffer.concat([Buffer.of(0x0a, text.length), Buffer.from(text)]);
}

async function assertAnswered(client: Http2Client, streamId: number, text: string): Promise<void> {
  const { fields, body, reset } = await client.answer(streamId);
  assert.equal(reset, undefined, "the stream was reset");
  assert.equal(fields["grpc-status"], "0", fields["grpc-message"]);
  assert.deepEqual(body.subarray(5), version(text));
}

/** Asks for `text` on a stream, with these fields, and expects it as the answer. */
async function exchange(client: Http2Client, streamId: number, fields: Buffer, text: string): Promise<void> {
  client.write(headers(streamId, fields), message(streamId, version(text)));
  await assertAnswered(client, streamId, text);
}

/** A client of a server that answers with the version of the request. */
async function withClient(work: (client: Http2Client) => Promise<void>): Promise<void> {
  await using server = await startVersionServer();
  using client = await Http2Client.connect(server.path);
  await client.open();
  await work(client);
}

describe("a request with the authority", () => {
  const authorities: [name: string, field: Buffer][] = [
    ["empty, from the static table", indexed(1)],
    ["absent", nothing],
    ["absent, with a host field", literal(38, "localhost")],
    ["absent, with a path as host field", literal(38, socketPath)],
    ["localhost", literal(1, "localhost", "incremental", "huffman")],
    ["of 8 KiB, all of them allowed", literal(1, "a".repeat(8192))],
    ["of bytes that are not ASCII", literal(1, "\u0000\u007f\u00e4\u00ff", "never", "huffman")],
  ];
  const values = { "a path": socketPath, empty: "", "a path of 8 KiB": `/${"b".repeat(8191)}` };
  for (const [name, value] of Object.entries(values)) {
    for (const indexing of ["incremental", "without", "never"] satisfies Indexing[]) {
      for (const coding of ["raw", "huffman"] satisfies Coding[]) {
        for (const key of [1, ":authority"]) {
          const form = `${name} (${[key, indexing, coding].join(", ")})`;
          authorities.push([form, literal(key, value, indexing, coding)]);
        }
      }
    }
  }
  const rows = authorities.map(([name, field]) => [name, requestFields("Version", field)] as const);
  const first = Buffer.concat([literal(1, "", "without"), requestFields("Version", nothing)]);
  for (const [name, fields] of [...rows, ["in front of the other pseudo-header fields", first] as const]) {
    test(`${name} is answered, and the same request again`, () =>
      withClient(async (client) => {
        await exchange(client, 1, fields, "one");
        await exchange(client, 3, fields, "two");
      }));
  }
});

describe("the requests of an old client", () => {
  const path = literal(1, socketPath, "incremental", "huffman");

  test("may name the authority by its entry in the dynamic table, also when a later entry moves it", () =>
    withClient(async (client) => {
      await exchange(client, 1, requestFields("Version", path), "one");
      await exchange(client, 3, requestFields("Version", indexed(newestEntry)), "two");
      const later = [literal("x-trace", "1", "incremental")];
      await exchange(client, 5, requestFields("Version", indexed(newestEntry), later), "three");
      await exchange(client, 7, requestFields("Version", indexed(newestEntry + 1)), "four");
    }));

  test("may be split into CONTINUATION frames, be padded and carry a priority", () =>
    withClient(async (client) => {
      const bytes = [...requestFields("Version", path)].map((byte) => Buffer.of(byte));
      const frames = bytes.map((fragment, index) => {
        const last = index === bytes.length - 1 ? flags.endHeaders : 0;
        return frame(index === 0 ? types.headers : types.continuation, last, 1, fragment);
      });
      client.write(...frames, message(1, version("one")));
      await assertAnswered(client, 1, "one");
      const priority = Buffer.of(0, 0, 0, 0, 15);
      const fields = requestFields("Version", indexed(newestEntry));
      const payload = Buffer.concat([Buffer.of(7), priority, fields, Buffer.alloc(7)]);
      const bits = flags.padded | flags.priority | flags.endHeaders;
      client.write(frame(types.headers, bits, 3, payload), message(3, version("two")));
      await assertAnswered(client, 3, "two");
    }));

  for (const [name, field] of Object.entries({ "a path": path, localhost: literal(1, "localhost") })) {
    const fields = requestFields("Version", field);
    const request = Buffer.concat([headers(1, fields), message(1, version("one"))]);

    test(`may arrive byte by byte (${name})`, async () => {
      await using server = await startVersionServer();
      using client = await Http2Client.connect(server.path);
      await client.writeSlowly(clientPreface, settings, request);
      await assertAnswered(client, 1, "one");
    });

    test(`may all be sent at once, without ever acknowledging SETTINGS (${name})`, async () => {
      await using server = await startVersionServer();
      using client = await Http2Client.connect(server.path, { acknowledge: false });
      client.write(clientPreface, settings, request);
      await assertAnswered(client, 1, "one");
      await exchange(client, 3, fields, "two");
    });

    test(`see each SETTINGS frame acknowledged once (${name})`, () =>
      withClient(async (client) => {
        await exchange(client, 1, fields, "one");
        client.write(settings, frame(types.ping, 0, 0, Buffer.alloc(8)));
        await client.until(() => client.frames.some(({ type }) => type === types.ping));
        const acks = client.frames.filter(
          ({ type, flags: bits }) => type === types.settings && bits === flags.ack,
        );
        assert.equal(acks.length, 2);
        assert.ok(client.frames.every(({ type }) => type !== types.goAway));
      }));

    test(`get INVALID_ARGUMENT without a message, for a string that is not UTF-8 and for broken bytes (${name})`, () =>
      withClient(async (client) => {
        client.write(frame(types.headers, flags.endHeaders | flags.endStream, 1, fields));
        assert.equal((await client.answer(1)).fields["grpc-status"], "3");
        const invalid = [Buffer.of(0x0a, 2, 0xff, 0xfe), Buffer.of(0x0f), Buffer.of(0x0a)];
        for (const [index, bytes] of invalid.entries()) {
          const streamId = 2 * index + 3;
          client.write(headers(streamId, fields), message(streamId, bytes));
          assert.equal((await client.answer(streamId)).fields["grpc-status"], "3", bytes.toString("hex"));
        }
        // The replacement character itself is a character like any other.
        client.write(headers(9, fields), message(9, Buffer.of(0x0a, 3, 0xef, 0xbf, 0xbd)));
        assert.equal((await client.answer(9)).fields["grpc-status"], "0");
      }));

    test(`abort the signal of their handler as timeout when grpc-timeout has passed (${name})`, async () => {
      let reason: unknown;
      await using server = await startTestServer({
        Version: async (_request, { signal }) => {
          await once(signal, "abort");
          reason = signal.reason;
          throw signal.reason;
        },
      });
      using client = await Http2Client.connect(server.path);
      await client.open();
      const timeout = [literal("grpc-timeout", "50m")];
      client.write(headers(1, requestFields("Version", field, timeout)), message(1));
      assert.equal((await client.answer(1)).fields["grpc-status"], "4");
      await server.server.close();
      assert.ok(isKind(reason, "timeout"));
    });

    test(`survive a client that vanishes in the middle (${name})`, async () => {
      await using server = await startVersionServer();
      const bytes = Buffer.concat([clientPreface, settings, request]);
      for (let length = 1; length <= bytes.length; length += 7) {
        using client = await Http2Client.connect(server.path);
        client.write(bytes.subarray(0, length));
        await turns(1);
      }
      using client = await Http2Client.connect(server.path);
      client.write(bytes);
      await assertAnswered(client, 1, "one");
    });
  }
});

/** A listener whose connections answer each request, with `ok`, and the sockets behind them. */
async function startAccepting(
  onRequest = (stream: GrpcStream): void => stream.finish({ code: status.OK }, Buffer.from("ok")),
) {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "x.sock");
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    new GrpcConnection(socket, {
      log: silentLogger(),
      keepaliveMs: 60_000,
      unfinished: new UnfinishedRequests(),
      onRequest,
    });
  });
  server.listen(path);
  await once(server, "listening");
  return {
    path,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await directory[Symbol.asyncDispose]();
    },
  };
}

const modernRequest = versionRequest(1);
const shortRequest = (id: number): Buffer => versionRequest(id, literal("grpc-timeout", "1S"));

describe("GrpcConnection", () => {
  test("keeps a connection without a request open and answers its PINGs", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await using accepting = await startAccepting();
    using client = await Http2Client.connect(accepting.path);
    await client.open();
    await ping(client, "--rest--");
    t.mock.timers.tick(3_600_000);
    await ping(client, "12345678");
    client.write(modernRequest, message(1));
    assert.equal((await client.answer(1)).body.subarray(5).toString(), "ok");
  });

  const silences: readonly (readonly [name: string, sent: readonly Buffer[]])[] = [
    ["nothing", []],
    ["half a preface", [clientPreface.subarray(0, 10)]],
    ["a preface only", [clientPreface]],
    ["half a frame header", [clientPreface, settings, modernRequest.subarray(0, 5)]],
    ["half a HEADERS frame", [clientPreface, settings, modernRequest.subarray(0, 30)]],
    ["HEADERS without CONTINUATION", [clientPreface, settings, frame(types.headers, 0, 1, Buffer.of(0x83))]],
  ];
  for (const [name, sent] of silences) {
    test(`closes the connection of a client that sends ${name} for 10 s`, async (t) => {
      t.mock.timers.enable({ apis: ["setTimeout"] });
      await using accepting = await startAccepting();
      const client = connectSilently(accepting.path);
      const socket = await acceptedSocket(accepting);
      const bytes = Buffer.concat(sent);
      client.write(bytes);
      while (socket.bytesRead < bytes.length) await turns(1);
      await turns(1);
      t.mock.timers.tick(9_999);
      assert.equal(socket.destroyed, false);
      t.mock.timers.tick(1);
      assert.equal(socket.destroyed, true);
      await closed(client);
    });
  }

  test("closes the connection of a client that sends a byte now and then", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await using accepting = await startAccepting();
    const client = connectSilently(accepting.path);
    const socket = await acceptedSocket(accepting);
    for (let index = 0; index < 10; index += 1) {
      assert.equal(socket.destroyed, false);
      client.write(clientPreface.subarray(index, index + 1));
      while (socket.bytesRead <= index) await turns(1);
      await turns(1);
      t.mock.timers.tick(1_000);
    }
    assert.equal(socket.destroyed, true);
  });

  const opening = (...frames: readonly Buffer[]): Buffer =>
    Buffer.concat([clientPreface, settings, ...frames]);
  const garbage: readonly (readonly [name: string, bytes: Buffer])[] = [
    ["an HTTP/1 request", Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n")],
    ["zero bytes", Buffer.alloc(100)],
    ["a preface with another end", Buffer.from("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")],
    ["no SETTINGS after the preface", Buffer.concat([clientPreface, modernRequest])],
    ["a frame that is too large", opening(Buffer.of(0, 0x40, 1, 0, 0, 0, 0, 0, 1))],
    ["CONTINUATION without HEADERS", opening(frame(types.continuation, 4, 1))],
    ["an interrupted header block", opening(frame(types.headers, 0, 1), settings)],
    ["padding beyond the frame", opening(frame(types.headers, 4 | 8, 1, Buffer.of(200, 1)))],
    ["broken HPACK", opening(headers(1, Buffer.alloc(5, 0xff)))],
    ["an unknown table entry", opening(headers(1, indexed(100)))],
    ["a PING of 3 bytes", opening(frame(types.ping, 0, 0, Buffer.alloc(3)))],
  ];
  for (const [name, bytes] of garbage) {
    test(`closes the connection of a client that sends ${name}`, async () => {
      await using accepting = await startAccepting();
      const client = connectSilently(accepting.path);
      client.write(bytes);
      await closed(client);
    });
  }

  const floods: readonly (readonly [name: string, begin: Buffer, bytes: Buffer])[] = [
    ["SETTINGS", nothing, settings],
    ["CONTINUATION", frame(types.headers, 0, 1), frame(types.continuation, 0, 1)],
    ["WINDOW_UPDATE", nothing, frame(types.windowUpdate, 0, 0, Buffer.of(0, 0, 0, 1))],
  ];
  for (const [name, begin, bytes] of floods) {
    test(`closes the connection of a client that sends ${name} without end`, async () => {
      await using accepting = await startAccepting();
      const client = connectSilently(accepting.path);
      client.write(opening(begin));
      // 18 KiB at a time; what is written after the server has closed goes nowhere.
      const end = closed(client);
      const chunk = Buffer.concat(Array<Buffer>(2048).fill(bytes));
      for (let sent = 0; !client.destroyed && sent < 4 * 1024 * 1024; sent += chunk.length) {
        client.write(chunk);
        await turns(1);
      }
      await end;
    });
  }

  test("closes the connection of a client that sends PINGs and does not read", async () => {
    await using accepting = await startAccepting();
    const client = connect(accepting.path);
    client.on("error", () => undefined);
    client.write(Buffer.concat([clientPreface, settings]));
    const chunk = Buffer.concat(Array<Buffer>(1024).fill(frame(types.ping, 0, 0, Buffer.alloc(8))));
    const socket = await acceptedSocket(accepting);
    while (!socket.destroyed) {
      client.write(chunk);
      await turns(1);
    }
    client.destroy();
  });

  describe("for a client that does not read", () => {
    /** Windows without end; the socket of the server. */
    async function connectUnresponsive(accepting: Awaited<ReturnType<typeof startAccepting>>) {
      const client = connect(accepting.path).on("error", () => undefined);
      const socket = await acceptedSocket(accepting);
      const window = frame(types.settings, 0, 0, Buffer.of(0, 4, 0x7f, 0xff, 0xff, 0xff));
      client.write(opening(window, frame(types.windowUpdate, 0, 0, Buffer.of(0x7f, 0, 0, 0))));
      return { client, socket };
    }

    test("writes no more of an answer than fits, and the rest when it reads", async () => {
      const answer = Buffer.alloc(8 * 1024 * 1024, "x");
      await using accepting = await startAccepting((stream) => stream.finish({ code: status.OK }, answer));
      const { client, socket } = await connectUnresponsive(accepting);
      client.write(Buffer.concat([versionRequest(1), message(1), versionRequest(3), message(3)]));
      await until("an answer is written", () => socket.writableLength > 0);
      await turns(2);
      assert.ok(socket.writableLength < 1024 * 1024, `${String(socket.writableLength)} bytes wait`);
      let received = 0;
      client.on("data", (chunk: Buffer) => (received += chunk.length));
      await until("both answers are there", () => received > 2 * answer.length);
      client.destroy();
    });

    test("closes the connection when the answers that wait for it are too much to hold", async () => {
      const answer = Buffer.alloc(1024 * 1024);
      await using accepting = await startAccepting((stream) => stream.finish({ code: status.OK }, answer));
      const { client, socket } = await connectUnresponsive(accepting);
      for (let id = 1; id < 200; id += 2) client.write(Buffer.concat([versionRequest(id), message(id)]));
      await until("all is read", () => socket.destroyed || socket.bytesRead >= client.bytesWritten);
      assert.ok(socket.destroyed);
      client.destroy();
    });

    test("closes the connection when it asks on and on", async () => {
      await using accepting = await startAccepting();
      const { client, socket } = await connectUnresponsive(accepting);
      for (let id = 1; id < 20_000 && !socket.destroyed; id += 2) {
        client.write(Buffer.concat([versionRequest(id), message(id)]));
        if (id % 1000 === 1) await turns(1);
      }
      await until(
        "all is read or refused",
        () => socket.destroyed || socket.bytesRead >= client.bytesWritten,
      );
      assert.ok(socket.destroyed || socket.writableEnded, `${String(socket.writableLength)} bytes wait`);
      client.destroy();
    });

    test("closes the connection when it lets its deadlines pass on and on", async (t) => {
      t.mock.timers.enable({ apis: ["setTimeout"] });
      await using accepting = await startAccepting();
      const { client, socket } = await connectUnresponsive(accepting);
      let id = 1;
      for (let round = 0; round < 10 && !socket.writableEnded; round += 1) {
        const end = id + 2 * 900;
        for (; id < end; id += 2) client.write(Buffer.concat([shortRequest(id), message(id)]));
        await until("all is read", () => socket.writableEnded || socket.bytesRead >= client.bytesWritten);
        t.mock.timers.tick(60_000);
      }
      assert.ok(socket.destroyed || socket.writableEnded, `${String(socket.writableLength)} bytes wait`);
      client.destroy();
    });
  });

  test("closes only the connection of a client that sends garbage after its first request", async () => {
    await using server = await startVersionServer();
    const path = requestFields("Version", literal(1, socketPath));
    using bystander = await Http2Client.connect(server.path);
    await bystander.open();
    await exchange(bystander, 1, path, "one");
    using client = await Http2Client.connect(server.path);
    await client.open();
    await exchange(client, 1, path, "one");
    client.write(headers(3, indexed(100)));
    await closed(client.socket);
    await exchange(bystander, 3, path, "two");
  });
});

async function ping(client: Http2Client, payload: string): Promise<void> {
  client.write(frame(types.ping, 0, 0, Buffer.from(payload)));
  await client.until(() =>
    client.frames.some(
      (f) => f.type === types.ping && f.flags === flags.ack && f.payload.toString() === payload,
    ),
  );
}

async function acceptedSocket(accepting: { readonly sockets: readonly Socket[] }): Promise<Socket> {
  for (;;) {
    const [socket] = accepting.sockets;
    if (socket !== undefined) return socket;
    await turns(1);
  }
}

/** Not once(): that rejects when an error (EPIPE) comes before. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once("close", () => {
      resolve();
    });
  });
}

/** A client that reads and says nothing of its own accord. */
function connectSilently(path: string): Socket {
  return connect(path)
    .on("error", () => undefined)
    .resume();
}
