import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer as createHttp2Server } from "node:http2";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { silentLogger } from "../../../../src/lib/log.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { acceptConnection } from "../../../../src/shim/grpc/authority/authority-rewriter.js";
import { GuardedConnection } from "../../../../src/shim/grpc/guards/guarded-connection.js";
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
  settingsAck,
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
        authorities.push([`${name}, ${indexing} indexing, ${coding}`, literal(1, value, indexing, coding)]);
        authorities.push([
          `${name}, spelled out, ${indexing}, ${coding}`,
          literal(":authority", value, indexing, coding),
        ]);
      }
    }
  }
  for (const [name, field] of authorities) {
    test(`${name} is answered`, async () => {
      await using server = await startVersionServer();
      using client = await Http2Client.connect(server.path);
      await client.open();
      client.write(headers(1, requestFields("Version", field)), message(1, version("one")));
      await assertAnswered(client, 1, "one");
      // The same again, for the state that the first request left behind.
      client.write(headers(3, requestFields("Version", field)), message(3, version("two")));
      await assertAnswered(client, 3, "two");
    });
  }

  test("that is a path in front of the other pseudo-header fields is answered", async () => {
    await using server = await startVersionServer();
    using client = await Http2Client.connect(server.path);
    await client.open();
    const fields = Buffer.concat([literal(1, "", "incremental"), requestFields("Version", nothing)]);
    client.write(headers(1, fields), message(1, version("one")));
    await assertAnswered(client, 1, "one");
  });
});

describe("the requests of an old client", () => {
  const path = literal(1, socketPath, "incremental", "huffman");

  test("may name the authority by its entry in the dynamic table", async () => {
    await using server = await startVersionServer();
    using client = await Http2Client.connect(server.path);
    await client.open();
    client.write(headers(1, requestFields("Version", path)), message(1, version("one")));
    await assertAnswered(client, 1, "one");
    client.write(headers(3, requestFields("Version", indexed(newestEntry))), message(3, version("two")));
    await assertAnswered(client, 3, "two");
    // A later entry moves the index of the older one.
    const later = [literal("x-trace", "1", "incremental")];
    client.write(
      headers(5, requestFields("Version", indexed(newestEntry), later)),
      message(5, version("three")),
    );
    client.write(headers(7, requestFields("Version", indexed(newestEntry + 1))), message(7, version("four")));
    await assertAnswered(client, 5, "three");
    await assertAnswered(client, 7, "four");
  });

  test("may be split into CONTINUATION frames", async () => {
    await using server = await startVersionServer();
    using client = await Http2Client.connect(server.path);
    await client.open();
    const fields = [...requestFields("Version", path)].map((byte) => Buffer.of(byte));
    const frames = fields.map((fragment, index) => {
      const last = index === fields.length - 1 ? flags.endHeaders : 0;
      return frame(index === 0 ? types.headers : types.continuation, last, 1, fragment);
    });
    client.write(...frames, message(1, version("one")));
    await assertAnswered(client, 1, "one");
  });

  test("may be padded and carry a priority", async () => {
    await using server = await startVersionServer();
    using client = await Http2Client.connect(server.path);
    await client.open();
    const priority = Buffer.of(0, 0, 0, 0, 15);
    const payload = Buffer.concat([Buffer.of(7), priority, requestFields("Version", path), Buffer.alloc(7)]);
    const bits = flags.padded | flags.priority | flags.endHeaders;
    client.write(frame(types.headers, bits, 1, payload), message(1, version("one")));
    await assertAnswered(client, 1, "one");
  });

  for (const [name, field] of [
    ["a path", path],
    ["localhost", literal(1, "localhost")],
  ] as const) {
    test(`may arrive byte by byte (${name})`, async () => {
      await using server = await startVersionServer();
      using client = await Http2Client.connect(server.path);
      await client.writeSlowly(clientPreface, settings);
      await client.writeSlowly(headers(1, requestFields("Version", field)), message(1, version("one")));
      await assertAnswered(client, 1, "one");
    });

    test(`may all be sent at once, without ever acknowledging SETTINGS (${name})`, async () => {
      await using server = await startVersionServer();
      using client = await Http2Client.connect(server.path, { acknowledge: false });
      client.write(
        clientPreface,
        settings,
        headers(1, requestFields("Version", field)),
        message(1, version("one")),
      );
      await assertAnswered(client, 1, "one");
      client.write(headers(3, requestFields("Version", field)), message(3, version("two")));
      await assertAnswered(client, 3, "two");
    });

    test(`see each SETTINGS frame acknowledged once (${name})`, async () => {
      await using server = await startVersionServer();
      using client = await Http2Client.connect(server.path);
      await client.open();
      client.write(headers(1, requestFields("Version", field)), message(1, version("one")));
      await assertAnswered(client, 1, "one");
      client.write(settings, frame(types.ping, 0, 0, Buffer.alloc(8)));
      await client.until(() => client.frames.some(({ type }) => type === types.ping));
      const acks = client.frames.filter(
        ({ type, flags: bits }) => type === types.settings && bits === flags.ack,
      );
      assert.equal(acks.length, 2);
      assert.equal(
        client.frames.some(({ type }) => type === types.goAway),
        false,
      );
    });

    test(`may carry 2 MiB (${name})`, async () => {
      await using server = await startTestServer({
        RemoveContainer: ({ container_id }) => {
          assert.equal(container_id.length, 2 * 1024 * 1024);
          return Promise.resolve({});
        },
      });
      using client = await Http2Client.connect(server.path);
      await client.open();
      const id = Buffer.alloc(2 * 1024 * 1024, "x");
      const request = Buffer.concat([Buffer.of(0x0a, 0x80, 0x80, 0x80, 0x01), id]);
      const prefix = Buffer.alloc(5);
      prefix.writeUInt32BE(request.length, 1);
      let rest = Buffer.concat([prefix, request]);
      client.write(headers(1, requestFields("RemoveContainer", field)));
      // Flow control: one window at a time, in frames of the largest size.
      let window = 65_535;
      while (rest.length > 0) {
        const size = Math.min(window, rest.length, 16_384);
        if (size === 0) {
          const updates = (): number =>
            client.frames
              .filter(({ type, streamId }) => type === types.windowUpdate && streamId === 1)
              .reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 0);
          const sent = prefix.length + request.length - rest.length;
          await client.until(() => 65_535 + updates() > sent);
          window = 65_535 + updates() - sent;
          continue;
        }
        const last = size === rest.length ? flags.endStream : 0;
        client.write(frame(types.data, last, 1, rest.subarray(0, size)));
        rest = rest.subarray(size);
        window -= size;
      }
      const { fields } = await client.answer(1);
      assert.equal(fields["grpc-status"], "0", fields["grpc-message"]);
    });

    test(`get INVALID_ARGUMENT when they end in their HEADERS frame (${name})`, async () => {
      await using server = await startVersionServer();
      using client = await Http2Client.connect(server.path);
      await client.open();
      const fields = requestFields("Version", field);
      client.write(frame(types.headers, flags.endHeaders | flags.endStream, 1, fields));
      const answer = await client.answer(1);
      assert.equal(answer.fields["grpc-status"], "3");
    });

    test(`get INVALID_ARGUMENT for a string that is not UTF-8 and for broken bytes (${name})`, async () => {
      await using server = await startVersionServer();
      using client = await Http2Client.connect(server.path);
      await client.open();
      const requests = [Buffer.of(0x0a, 2, 0xff, 0xfe), Buffer.of(0x0f), Buffer.of(0x0a)];
      for (const [index, request] of requests.entries()) {
        const streamId = 2 * index + 1;
        client.write(headers(streamId, requestFields("Version", field)), message(streamId, request));
        assert.equal((await client.answer(streamId)).fields["grpc-status"], "3", request.toString("hex"));
      }
      // The replacement character itself is a character like any other.
      client.write(
        headers(9, requestFields("Version", field)),
        message(9, Buffer.of(0x0a, 3, 0xef, 0xbf, 0xbd)),
      );
      assert.equal((await client.answer(9)).fields["grpc-status"], "0");
    });

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
      assert.ok(reason instanceof ShimError);
      assert.equal(reason.kind, "timeout");
    });

    test(`survive a client that vanishes in the middle (${name})`, async () => {
      await using server = await startVersionServer();
      const request = Buffer.concat([
        clientPreface,
        settings,
        headers(1, requestFields("Version", field)),
        message(1, version("one")),
      ]);
      for (let length = 1; length <= request.length; length += 7) {
        using client = await Http2Client.connect(server.path);
        client.write(request.subarray(0, length));
        await new Promise((resolve) => setImmediate(resolve));
      }
      using client = await Http2Client.connect(server.path);
      client.write(request);
      await assertAnswered(client, 1, "one");
    });
  }
});

interface Accepting extends AsyncDisposable {
  readonly path: string;
  /** Connections that the HTTP/2 library was given, and the sockets behind them. */
  readonly injected: Duplex[];
  readonly sockets: Socket[];
}

async function startAccepting(
  options: { openingTimeoutMs?: number; acknowledgementTimeoutMs?: number } = {},
) {
  const directory = await mkdtemp(join(tmpdir(), "accept-test-"));
  const path = join(directory, "x.sock");
  const http2Server = createHttp2Server((_request, response) => {
    response.end("ok");
  });
  const injected: Duplex[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    acceptConnection(socket, {
      handOver: (opening, rewrite) => {
        const connection = new GuardedConnection(socket, opening, { rewrite });
        injected.push(connection);
        http2Server.emit("connection", connection);
      },
      log: silentLogger(),
      ...options,
    });
  });
  server.listen(path);
  await once(server, "listening");
  return {
    path,
    injected,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await rm(directory, { recursive: true, force: true });
    },
  } satisfies Accepting;
}

const modernRequest = versionRequest(1);

describe("acceptConnection()", () => {
  test("gives one connection to the HTTP/2 library when the authority is acceptable", async () => {
    await using accepting = await startAccepting();
    using client = await Http2Client.connect(accepting.path);
    await client.open();
    client.write(modernRequest, message(1));
    assert.equal((await client.answer(1)).body.toString(), "ok");
    assert.equal(accepting.injected.length, 1);
  });

  test("waits for the acknowledgement of SETTINGS that comes behind the first request", async () => {
    await using accepting = await startAccepting({ acknowledgementTimeoutMs: 60_000 });
    using client = await Http2Client.connect(accepting.path, { acknowledge: false });
    await client.open();
    client.write(modernRequest, message(1));
    client.write(frame(types.ping, 0, 0, Buffer.from("12345678")));
    await client.until(() => client.frames.some(({ type }) => type === types.ping));
    assert.equal(accepting.injected.length, 0);
    client.write(settingsAck);
    assert.equal((await client.answer(1)).body.toString(), "ok");
    assert.equal(accepting.injected.length, 1);
  });

  test("keeps a connection without a request open and answers its PINGs", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await using accepting = await startAccepting();
    using client = await Http2Client.connect(accepting.path);
    await client.open();
    await ping(client, "--rest--");
    t.mock.timers.tick(3_600_000);
    await ping(client, "12345678");
    client.write(modernRequest, message(1));
    assert.equal((await client.answer(1)).body.toString(), "ok");
  });

  const silences: readonly (readonly [name: string, sent: readonly Buffer[]])[] = [
    ["nothing", []],
    ["half a preface", [clientPreface.subarray(0, 10)]],
    ["a preface only", [clientPreface]],
    ["half a frame header", [clientPreface, settings, modernRequest.subarray(0, 5)]],
    ["half a HEADERS frame", [clientPreface, settings, modernRequest.subarray(0, 30)]],
    [
      "HEADERS without their CONTINUATION",
      [clientPreface, settings, frame(types.headers, 0, 1, Buffer.of(0x83))],
    ],
  ];
  for (const [name, sent] of silences) {
    test(`closes the connection of a client that sends ${name} for 10 s`, async (t) => {
      t.mock.timers.enable({ apis: ["setTimeout"] });
      await using accepting = await startAccepting();
      const client = connectSilently(accepting.path);
      const socket = await acceptedSocket(accepting);
      const bytes = Buffer.concat(sent);
      client.write(bytes);
      while (socket.bytesRead < bytes.length) await turn();
      await turn();
      t.mock.timers.tick(9_999);
      assert.equal(socket.destroyed, false);
      t.mock.timers.tick(1);
      assert.equal(socket.destroyed, true);
      await closed(client);
      assert.equal(accepting.injected.length, 0);
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
      while (socket.bytesRead <= index) await turn();
      await turn();
      t.mock.timers.tick(1_000);
    }
    assert.equal(socket.destroyed, true);
  });

  const garbage: readonly (readonly [name: string, bytes: Buffer])[] = [
    ["an HTTP/1 request", Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n")],
    ["zero bytes", Buffer.alloc(100)],
    ["a preface with another end", Buffer.from("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")],
    ["no SETTINGS after the preface", Buffer.concat([clientPreface, modernRequest])],
    [
      "a frame that is too large",
      Buffer.concat([clientPreface, settings, Buffer.of(0, 0x40, 1, 0, 0, 0, 0, 0, 1)]),
    ],
    [
      "CONTINUATION without HEADERS",
      Buffer.concat([clientPreface, settings, frame(types.continuation, 4, 1)]),
    ],
    [
      "an interrupted header block",
      Buffer.concat([clientPreface, settings, frame(types.headers, 0, 1), settings]),
    ],
    [
      "padding beyond the frame",
      Buffer.concat([clientPreface, settings, frame(1, 4 | 8, 1, Buffer.of(200, 1))]),
    ],
    [
      "broken HPACK",
      Buffer.concat([clientPreface, settings, headers(1, Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff))]),
    ],
    ["an unknown table entry", Buffer.concat([clientPreface, settings, headers(1, indexed(100))])],
    ["a PING of 3 bytes", Buffer.concat([clientPreface, settings, frame(types.ping, 0, 0, Buffer.alloc(3))])],
  ];
  for (const [name, bytes] of garbage) {
    test(`closes the connection of a client that sends ${name}`, async () => {
      await using accepting = await startAccepting();
      const client = connectSilently(accepting.path);
      client.write(bytes);
      await closed(client);
      assert.equal(accepting.injected.length, 0);
    });
  }

  const floods: readonly (readonly [name: string, bytes: Buffer])[] = [
    ["SETTINGS", settings],
    ["CONTINUATION", frame(types.continuation, 0, 1)],
    ["WINDOW_UPDATE", frame(types.windowUpdate, 0, 0, Buffer.of(0, 0, 0, 1))],
  ];
  for (const [name, bytes] of floods) {
    test(`closes the connection of a client that sends ${name} without end`, async () => {
      await using accepting = await startAccepting();
      const client = connectSilently(accepting.path);
      client.write(Buffer.concat([clientPreface, settings]));
      if (name === "CONTINUATION") client.write(frame(types.headers, 0, 1));
      // 18 KiB at a time; what is written after the server has closed goes nowhere.
      const end = closed(client);
      let sent = 0;
      while (!client.destroyed && sent < 4 * 1024 * 1024) {
        const chunk = Buffer.concat(Array<Buffer>(2048).fill(bytes));
        sent += chunk.length;
        client.write(chunk);
        await turn();
      }
      await end;
      assert.equal(accepting.injected.length, 0);
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
      await turn();
    }
    client.destroy();
    assert.equal(accepting.injected.length, 0);
  });

  test("closes only the connection of a client that sends garbage after its first rewritten request", async () => {
    await using server = await startVersionServer();
    const path = literal(1, socketPath);
    using bystander = await Http2Client.connect(server.path);
    await bystander.open();
    bystander.write(headers(1, requestFields("Version", path)), message(1, version("one")));
    await assertAnswered(bystander, 1, "one");
    using client = await Http2Client.connect(server.path);
    await client.open();
    client.write(headers(1, requestFields("Version", path)), message(1, version("one")));
    await assertAnswered(client, 1, "one");
    client.write(headers(3, indexed(100)));
    await closed(client.socket);
    bystander.write(headers(3, requestFields("Version", path)), message(3, version("two")));
    await assertAnswered(bystander, 3, "two");
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
    await turn();
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

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
