import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect } from "node:net";
import { describe, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import type { HeaderField } from "../../../../src/lib/http2/hpack.js";
import { GrpcStream } from "../../../../src/shim/grpc/http2/grpc-stream.js";
import { ResetLimit } from "../../../../src/shim/grpc/http2/reset-limit.js";
import type { GrpcServerOptions } from "../../../../src/shim/grpc/server.js";
import { turns } from "../../../fakes/turns.js";
import { until } from "../../../support/wait.js";
import { Http2Client } from "../http2-client.js";
import {
  cancel,
  clientPreface,
  flags,
  frame,
  headers,
  indexed,
  literal,
  message,
  settings,
  settingsAck,
  types,
  versionRequest,
} from "../http2-writer.js";
import { connectClient, startTestServer, type TestServer } from "../test-server.js";

/** Open files of this process. */
const files = (): number => readdirSync("/proc/self/fd").length;
const call = (streamId: number): Buffer => Buffer.concat([versionRequest(streamId), message(streamId)]);
/** Calls that are cancelled at once. */
const cancelled = (first: number, count: number): Buffer =>
  Buffer.concat(
    Array.from({ length: count }, (_, index) => first + 2 * index).flatMap((id) => [call(id), cancel(id)]),
  );

test("ResetLimit allows 500 RST_STREAM frames at once and 30 per second", () => {
  let now = 0;
  const limit = new ResetLimit(() => now);
  const count = (frames: number): void => {
    for (let index = 0; index < frames; index += 1) limit.count();
  };
  count(500);
  now += 1_000;
  count(30);
  assert.throws(() => count(1), /a flood of RST_STREAM frames/);
});

test("a client that does not read is disconnected", async () => {
  await using server = await startTestServer(
    { Version: () => Promise.resolve({ version: "a".repeat(12 * 1024 * 1024) }) },
    { keepaliveMs: 100 },
  );
  const before = files();
  const socket = connect(server.path);
  socket.on("error", () => undefined).pause();
  const increment = Buffer.from([0x7f, 0, 0, 0]);
  const hugeWindows = frame(types.settings, 0, 0, Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff]));
  socket.write(Buffer.concat([clientPreface, hugeWindows, settingsAck]));
  socket.write(Buffer.concat([frame(types.windowUpdate, 0, 0, increment), call(1)]));
  await once(socket, "connect");
  await until("its end of the connection", () => files() > before + 1);
  // The client's own end stays open: it does not notice.
  await until("the server's end to be closed", () => files() <= before + 1);
  socket.destroy();
});

describe("a client that cancels its calls", () => {
  test("may cancel some hundred at once", async () => {
    await using server = await serve();
    using client = await Http2Client.connect(server.path);
    await client.open();
    client.write(cancelled(1, 400));
    client.write(call(1001));
    assert.equal((await client.answer(1001)).fields["grpc-status"], "0");
  });

  test("is disconnected at once when it cancels without end", async () => {
    await using server = await serve();
    const socket = connect(server.path);
    socket.on("error", () => undefined).resume();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write(Buffer.concat([clientPreface, settings, settingsAck, cancelled(1, 600)]));
    await closed;
  });
});
function serve(options: Partial<GrpcServerOptions> = {}): Promise<TestServer> {
  return startTestServer({ Version: () => Promise.resolve({ version: "x" }) }, options);
}

async function statusOf(client: Http2Client, streamId: number): Promise<readonly (string | undefined)[]> {
  const { fields } = await client.answer(streamId);
  return [fields["grpc-status"], decodeURI(fields["grpc-message"] ?? "")];
}

describe("requests that are not complete or wrong", () => {
  test("answers all calls of clients that make many at once", async () => {
    await using server = await serve();
    using one = connectClient(server.path);
    using other = connectClient(server.path);
    const version = "a".repeat(2000);
    const calls = [one, other].flatMap((client) =>
      Array.from({ length: 600 }, () => client.call("Version", { version })),
    );
    assert.equal((await Promise.all(calls)).length, 1200);
  });

  test("closes the connection of the oldest unfinished request when all together are too many", async () => {
    await using server = await serve({ unfinishedBytes: 100_000 });
    const clients: Http2Client[] = [];
    for (const _ of [1, 2]) {
      const client = await Http2Client.connect(server.path);
      clients.push(client);
      await client.open();
    }
    const [stalled, busy] = clients as [Http2Client, Http2Client];
    const half = Buffer.concat([Buffer.of(0, 0, 0, 0xff, 0xff), Buffer.alloc(10_000)]);
    // What is complete does not count, however much it is.
    for (let id = 1; id < 23; id += 2) {
      busy.write(versionRequest(id), message(id));
      assert.equal((await statusOf(busy, id))[0], "0");
    }
    const closed = new Promise((resolve) => stalled.socket.once("close", resolve));
    stalled.write(versionRequest(1), frame(types.data, 0, 1, half));
    // Its answer comes when the server has seen the half message.
    stalled.write(versionRequest(3), message(3));
    assert.equal((await statusOf(stalled, 3))[0], "0");
    for (const id of [31, 33, 35]) busy.write(versionRequest(id), frame(types.data, 0, id, half));
    await closed;
    busy.write(versionRequest(37), message(37));
    assert.equal((await statusOf(busy, 37))[0], "0");
    for (const client of clients) client[Symbol.dispose]();
  });

  test("refuses compressed messages with UNIMPLEMENTED", async () => {
    await using server = await serve();
    using client = await Http2Client.connect(server.path);
    await client.open();
    const packed = gzipSync(Buffer.alloc(100));
    const head = Buffer.of(1, 0, 0, 0, packed.length);
    const compressed = frame(types.data, flags.endStream, 1, Buffer.concat([head, packed]));
    client.write(versionRequest(1, literal("grpc-encoding", "gzip")), compressed);
    assert.equal((await statusOf(client, 1))[0], "12");
    client.write(versionRequest(3, literal("grpc-encoding", "identity")), message(3));
    assert.equal((await statusOf(client, 3))[0], "0");
  });

  test("a call with two messages is INVALID_ARGUMENT", async () => {
    await using server = await serve();
    using client = await Http2Client.connect(server.path);
    await client.open();
    const empty = Buffer.alloc(5);
    client.write(versionRequest(1), frame(types.data, flags.endStream, 1, Buffer.concat([empty, empty])));
    assert.deepEqual(await statusOf(client, 1), ["3", "the call contains more than one request message"]);
  });
});

describe("of the fields of a request", () => {
  test("a path that is too long for any method is answered in one frame", async () => {
    await using server = await serve();
    using client = await Http2Client.connect(server.path);
    await client.open();
    const path = literal(4, `/${"\u00e4".repeat(8000)}`);
    client.write(headers(1, Buffer.concat([indexed(3), indexed(6), path])), message(1));
    assert.equal((await statusOf(client, 1))[0], "12");
    for (const { payload } of client.frames) assert.ok(payload.length <= 16_384, `${payload.length} bytes`);
  });

  test("nothing is kept but what is asked for", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const owner = { requested: () => undefined, flush: () => undefined, giveUp: () => undefined };
    const open = (): { readonly stream: GrpcStream; readonly fields: WeakRef<HeaderField[]> } => {
      const fields = [{ name: ":path", value: "/x", neverIndexed: false }];
      const stream = new GrpcStream(1, fields, owner, { receive: 0, send: 0 });
      return { stream, fields: new WeakRef(fields) };
    };
    const { stream, fields } = open();
    await turns(1);
    collect();
    assert.equal(fields.deref(), undefined);
    assert.equal(stream.path, "/x");
  });
});

test("a client that does not read, sends on and leaves, leaves no file open", async () => {
  await using server = await serve({ keepaliveMs: 100 });
  const before = files();
  const socket = connect(server.path);
  // The server may close the connection first.
  socket.on("error", () => undefined);
  const answered = once(socket, "data");
  socket.write(Buffer.concat([clientPreface, settings, settingsAck, versionRequest(1), message(1)]));
  await answered;
  socket.pause();
  const empty = Buffer.concat(Array<Buffer>(500).fill(frame(types.data, 0, 1)));
  for (let count = 0; count < 300; count += 1) {
    if (!socket.write(empty)) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  socket.destroy();
  await until("the connection to be closed", () => files() <= before);
});
