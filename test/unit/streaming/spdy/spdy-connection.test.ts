import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, test, type TestContext } from "node:test";
import { isKind, ShimError } from "../../../../src/lib/errors.js";
import {
  emptySettingsFrame,
  frameFlag,
  frameType,
  goAwayFrame,
  goAwayStatus,
  pingFrame,
  resetStatus,
  rstStreamFrame,
} from "../../../../src/lib/spdy/frames.js";
import { SpdyConnection, type SpdyStream } from "../../../../src/shim/streaming/spdy/spdy-connection.js";
import { connect, duplexPair } from "./spdy-bed.js";
import { inflateBlocks, SpdyClient, type Answer } from "./spdy-client.js";
import { data, headersFrame, synStream } from "../../../support/spdy-frames.js";
import { pluck } from "../../../support/pluck.js";

/** Waits until the client has all answers to its frames. */
async function settle(client: SpdyClient, id = 1): Promise<void> {
  client.send(pingFrame(id));
  await client.answer((answer) => answer.type === frameType.ping && answer.fields[0] === id);
}

/** A connection with these streams. */
async function opened(t: TestContext, ...ids: readonly number[]) {
  const bed = connect(t);
  bed.client.send(...ids.map((id) => bed.client.open(id)));
  await settle(bed.client);
  return bed;
}

/** Unlike asynchronous iteration, this leaves the other half of the stream alone. */
async function readAll(stream: SpdyStream): Promise<string> {
  let text = "";
  stream.on("data", (bytes: Buffer) => (text += bytes.toString()));
  await once(stream, "end");
  return text;
}

const resets = (answers: readonly Answer[]) =>
  answers.flatMap((one) => (one.type === frameType.rstStream ? [one.fields] : []));
const goAways = (answers: readonly Answer[]) =>
  answers.flatMap((one) => (one.type === frameType.goAway ? [one.fields] : []));
const echo = (stream: SpdyStream): void => void stream.pipe(stream);

describe("a SPDY connection", () => {
  test("replies to a stream before it passes it on, with empty headers", async (t) => {
    const { client, streams } = connect(t, { onStream: (stream) => stream.end("hello") });
    client.send(client.open(1, [["streamtype", "stdout"]]), client.open(3));
    const last = await client.answer((one) => one.type === "data" && one.streamId === 3 && one.fin);
    assert.equal(streams[0]?.headers.get("streamtype"), "stdout");
    const shape = client.answers.map((one) =>
      one.type === "data" ? `data ${one.streamId}` : `${one.type} ${one.fields[0]}`,
    );
    assert.deepEqual(shape, ["2 1", "data 1", "data 1", "2 3", "data 3", "data 3"]);
    assert.equal(last.payload.length, 0);
    assert.equal(client.received(1).toString(), "hello");
    const blocks = client.answers
      .filter(({ type }) => type === frameType.synReply)
      .map(({ payload }) => payload.subarray(4));
    assert.deepEqual(await inflateBlocks(blocks), Buffer.alloc(8));
  });

  test("ends each half of a stream by itself", async (t) => {
    const { client, streams } = connect(t);
    client.send(client.open(1), data(1, "question"), data(1, "", { fin: true }));
    await settle(client);
    const [stream] = streams;
    assert.equal(await readAll(stream!), "question");
    assert.ok(!stream!.destroyed);
    stream!.end("answer");
    await once(stream!, "close");
    assert.equal(stream!.errored, null);
    await settle(client, 3);
    assert.equal(client.received(1).toString(), "answer");
    assert.deepEqual(resets(client.answers), []);
  });

  test("reads bytes from before the upgrade, and frames in pieces", async (t) => {
    const other = new SpdyClient(duplexPair()[0]);
    const bytes = Buffer.concat([other.open(1), data(1, "ab", { fin: true })]);
    const { client } = connect(t, { head: bytes.subarray(0, 20), onStream: echo });
    for (const byte of bytes.subarray(20)) client.send(Buffer.of(byte));
    await client.answer((one) => one.type === "data" && one.fin);
    assert.equal(client.received(1).toString(), "ab");
  });

  test("answers pings of the client, and ignores frames without an answer", async (t) => {
    const { client } = connect(t);
    client.send(pingFrame(2), emptySettingsFrame(), Buffer.from("8003000900000008000000010000ffff", "hex"));
    // SETTINGS of an invalid size: ignored frames are not parsed.
    client.send(Buffer.from("8003000400000003aabbcc", "hex"), pingFrame(7));
    await settle(client, 9);
    assert.deepEqual(pluck(client.answers, "type"), [frameType.ping, frameType.ping]);
  });

  test("follows the compression through HEADERS and refused streams", async (t) => {
    const { client, streams } = connect(t, { limits: { streams: 1 } });
    client.send(client.open(1, [["a", "one"]]));
    client.send(headersFrame(1, client.blocks.block([["b", "two"]])));
    client.send(client.open(3, [["c", "three"]]), rstStreamFrame(1, resetStatus.cancel));
    client.send(client.open(5, [["c", "three"]]), headersFrame(5, client.blocks.block([]), frameFlag.fin));
    await settle(client);
    assert.deepEqual(pluck(streams, "id"), [1, 5]);
    assert.equal(streams[1]?.headers.get("c"), "three");
    assert.equal(await readAll(streams[1]), "");
    assert.deepEqual(resets(client.answers), [[3, resetStatus.refusedStream]]);
  });

  test("sends nothing on a stream that may only be read, and ends one that was opened as ended", async (t) => {
    const { client, streams } = connect(t);
    client.send(client.open(1, [], frameFlag.unidirectional), data(1, "x", { fin: true }));
    client.send(client.open(3, [], frameFlag.unidirectional | frameFlag.fin));
    await settle(client);
    assert.ok(streams.every(({ writable }) => !writable));
    assert.deepEqual(await Promise.all(streams.map(readAll)), ["x", ""]);
    assert.deepEqual(pluck(client.answers, "type"), [frameType.ping]);
  });

  test("cuts large writes into frames, and lets streams that write at once take turns", async (t) => {
    const { client, streams } = await opened(t, 1, 3);
    const big = Buffer.from(Array.from({ length: 900_000 }, (_, index) => index % 251));
    for (const stream of streams) stream.end(big);
    await Promise.all(
      [1, 3].map((id) => client.answer((one) => one.type === "data" && one.streamId === id && one.fin)),
    );
    const order = client.answers.flatMap((one) => (one.type === "data" ? [one.streamId] : []));
    assert.ok(order.indexOf(3) < order.lastIndexOf(1), order.join());
    assert.ok(order.indexOf(1) < order.lastIndexOf(3), order.join());
    const half = order.slice(0, order.length / 2).filter((id) => id === 1).length;
    assert.ok(Math.abs(half - order.length / 4) <= 5, `stream 1 had ${String(half)} of the first frames`);
    assert.deepEqual(client.received(1), big);
    assert.deepEqual(client.received(3), big);
  });
});

describe("a stream", () => {
  test("is reset by destroy(), by reset() with its status, and not twice", async (t) => {
    const { client, streams } = await opened(t, 1, 3, 5);
    streams[0]!.destroy();
    streams[1]!.reset(resetStatus.refusedStream);
    streams[1]!.reset();
    streams[2]!.destroy(new Error("upper layer"));
    client.send(data(1, "late"), data(3, "late", { fin: true }), rstStreamFrame(5, resetStatus.cancel));
    await settle(client, 3);
    assert.deepEqual(resets(client.answers), [
      [1, resetStatus.cancel],
      [3, resetStatus.refusedStream],
      [5, resetStatus.cancel],
    ]);
  });

  test("fails as cancelled when the client resets it, and with it the write that waits", async (t) => {
    const { client, streams, far } = await opened(t, 1);
    far.pause();
    const written = new Promise((resolve) => streams[0]!.write(Buffer.alloc(3_000_000), resolve));
    client.send(rstStreamFrame(1, resetStatus.cancel));
    await new Promise((resolve) => streams[0]!.once("close", resolve));
    const error = streams[0]!.errored;
    assert.ok(isKind(error, "cancelled"), String(error));
    assert.match(error.message, /stream 1: reset by the client/);
    assert.ok((await written) instanceof Error);
  });

  test("ends without an error when the client resets it after both sides are done with it", async (t) => {
    const { client, streams } = connect(t, { onStream: (stream) => stream.end("all") });
    client.send(client.open(1));
    await client.answer((one) => one.type === "data" && one.fin);
    client.send(rstStreamFrame(1, resetStatus.cancel));
    await settle(client);
    assert.ok(streams[0]!.destroyed);
    assert.equal(streams[0]!.errored, null);
  });

  test("is reset when the client sends after its end", async (t) => {
    const { client, streams } = connect(t);
    client.send(client.open(1), data(1, "", { fin: true }), data(1, "more"));
    client.send(client.open(3), data(3, "", { fin: true }), headersFrame(3, client.blocks.block([])));
    await settle(client);
    assert.deepEqual(resets(client.answers), [
      [1, resetStatus.streamAlreadyClosed],
      [3, resetStatus.streamAlreadyClosed],
    ]);
    assert.ok(streams.every(({ destroyed }) => destroyed));
  });

  test("that was never opened is refused once per frame; one that has ended is not", async (t) => {
    const { client, streams } = await opened(t, 3);
    streams[0]!.destroy();
    client.send(data(3, "late"), data(5, "early"), data(2, "mine?"));
    client.send(headersFrame(7, client.blocks.block([])));
    client.send(rstStreamFrame(9, resetStatus.cancel));
    await settle(client, 3);
    assert.deepEqual(resets(client.answers), [
      [3, resetStatus.cancel],
      [5, resetStatus.invalidStream],
      [2, resetStatus.invalidStream],
      [7, resetStatus.invalidStream],
    ]);
  });
});

describe("a SPDY connection ends", () => {
  test("with close(): after all that was written, then GOAWAY, then the transport", async (t) => {
    const { client, connection, streams } = await opened(t, 1, 3, 5);
    const big = Buffer.alloc(700_000, 1);
    streams[0]!.end(big);
    streams[1]!.write(big);
    const closing = connection.close();
    client.send(client.open(7));
    const answers = await client.end();
    client.transport.end();
    await closing;
    await connection.closed;
    assert.deepEqual(client.received(1), big);
    assert.deepEqual(client.received(3), big);
    assert.deepEqual(resets(answers), [[7, resetStatus.refusedStream]]);
    assert.deepEqual(answers.at(-1)?.type, frameType.goAway);
    assert.deepEqual(goAways(answers), [[7, goAwayStatus.ok]]);
    assert.equal(connection.failure, undefined);
  });

  test("with close() at once when its signal aborts", async (t) => {
    const { connection, streams, far } = await opened(t, 1);
    far.pause();
    streams[0]!.write(Buffer.alloc(3_000_000));
    const controller = new AbortController();
    const closing = connection.close(controller.signal);
    controller.abort(new ShimError("timeout", "took too long"));
    await closing;
    assert.ok(streams[0]!.destroyed);
    await connection.close(AbortSignal.abort());
  });

  test("after close() also when the client does not close", async (t) => {
    const { client, connection } = connect(t, { limits: { lingerMs: 1 } });
    client.transport.allowHalfOpen = true;
    await connection.close();
    assert.equal(connection.failure, undefined);
  });

  test("when the client closes, and its streams fail as cancelled", async (t) => {
    const { client, connection, streams } = connect(t);
    client.send(client.open(1), data(1, "x"));
    await settle(client);
    client.transport.end();
    await connection.closed;
    assert.ok(isKind(streams[0]!.errored, "cancelled"));
    assert.match(streams[0]!.errored.message, /the client is gone/);
    assert.equal(connection.failure, undefined);
  });

  test("when the transport fails, or has ended before", async (t) => {
    const { connection, near } = connect(t);
    near.destroy(new Error("connection reset"));
    await connection.closed;
    const again = new SpdyConnection(near, { onStream: () => assert.fail("a stream of a closed transport") });
    await again.closed;
    assert.equal(again.failure, undefined);
  });

  test("when the client has sent GOAWAY and its last stream has ended", async (t) => {
    const { client, connection, streams } = connect(t);
    client.send(client.open(1), goAwayFrame(0, goAwayStatus.ok), client.open(3), data(1, "", { fin: true }));
    await settle(client);
    assert.deepEqual(resets(client.answers), [[3, resetStatus.refusedStream]]);
    streams[0]!.resume();
    streams[0]!.end("last words");
    await client.end();
    assert.equal(client.received(1).toString(), "last words");
    client.transport.end();
    await connection.closed;
  });

  test("when the receiver of a stream throws", async (t) => {
    const { client, connection } = connect(t, {
      onStream: () => {
        throw new TypeError("a bug");
      },
    });
    client.send(client.open(1));
    assert.deepEqual(goAways(await client.end()), [[1, goAwayStatus.internalError]]);
    assert.ok(isKind(connection.failure, "internal"));
  });

  const bomb = Buffer.alloc(40_000_000);
  const violations: [name: string, bytes: (client: SpdyClient) => Buffer[], reason: RegExp][] = [
    ["an even id", (client) => [client.open(2)], /stream 2 opened after stream 0/],
    ["an id twice", (client) => [client.open(1), client.open(1)], /stream 1 opened after stream 1/],
    ["a smaller id", (client) => [client.open(5), client.open(3)], /stream 3 opened after stream 5/],
    ["a header bomb", ({ blocks }) => [synStream(1, blocks.deflate(bomb))], /more than 65536 bytes/],
    ["an invalid block", () => [synStream(1, Buffer.from("streamtype"))], /without a zlib header/],
    ["garbage", () => [Buffer.alloc(100, 0xff)], /of version 32767/],
  ];
  for (const [name, bytes, reason] of violations) {
    test(`with GOAWAY after ${name}`, async (t) => {
      const { client, connection, streams } = connect(t);
      client.send(...bytes(client));
      const statuses = goAways(await client.end()).map(([, status]) => status);
      assert.deepEqual(statuses, [goAwayStatus.protocolError]);
      assert.ok(isKind(connection.failure, "invalid"));
      assert.match(connection.failure.message, reason);
      assert.ok(streams.every(({ destroyed }) => destroyed));
    });
  }

  test("lastActivityMs follows data in both directions, and nothing else", async (t) => {
    t.mock.method(performance, "now", () => now);
    let now = 100;
    const { client, connection, streams } = connect(t);
    assert.equal(connection.lastActivityMs, 100);
    now = 200;
    await settle(client);
    assert.equal(connection.lastActivityMs, 100);
    client.send(client.open(1));
    await settle(client, 3);
    assert.equal(connection.lastActivityMs, 200);
    now = 300;
    client.send(data(1, "x"));
    await settle(client, 5);
    assert.equal(connection.lastActivityMs, 300);
    now = 400;
    streams[0]!.write("y");
    assert.equal(connection.lastActivityMs, 400);
  });
});
