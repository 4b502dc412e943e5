/** Limits of a SPDY connection against a client that sends too much. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, test } from "node:test";
import {
  dataFrameHeader,
  frameType,
  pingFrame,
  resetStatus,
  rstStreamFrame,
} from "../../../../src/lib/spdy/frames.js";
import { connect } from "./spdy-bed.js";
import { type SpdyClient } from "./spdy-client.js";
import { data, headersFrame } from "../../../support/spdy-frames.js";
import { pluck } from "../../../support/pluck.js";

/** Sends until nothing is taken any more, or `limit` times; answers how often something was taken. */
async function flood(client: SpdyClient, limit: number, next: (index: number) => Buffer): Promise<number> {
  for (let index = 0; index < limit; index += 1) {
    const state = { taken: false };
    client.transport.write(next(index), () => (state.taken = true));
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    if (!state.taken) return index;
  }
  return limit;
}

const kib = 1024;

describe("a client that sends", () => {
  test("more than is consumed is paused, until it is consumed", async (t) => {
    const { client, streams } = connect(t);
    client.send(client.open(1));
    const chunk = data(1, Buffer.alloc(64 * kib));
    const taken = await flood(client, 100, () => chunk);
    assert.ok(taken >= 16 && taken <= 20, `${String(taken)} chunks of 64 KiB were taken`);
    // The stream is read: what waits in the transport comes, and more is taken.
    let read = 0;
    streams[0]!.on("data", (bytes: Buffer) => (read += bytes.length));
    assert.equal(await flood(client, 40, () => chunk), 40);
    client.send(data(1, "", { fin: true }));
    await once(streams[0]!, "end");
    // One more was sent when the first flood ended.
    assert.equal(read, (taken + 1 + 40) * 64 * kib);
  });

  test("single bytes is limited by the memory that they take", async (t) => {
    const { client } = connect(t);
    client.send(client.open(1));
    const bytes = Buffer.concat(Array.from({ length: 1000 }, () => data(1, "x")));
    const taken = await flood(client, 1000, () => bytes);
    assert.ok(taken <= 10, `${String(taken)} thousands of single bytes were taken`);
  });

  test("a little on each of many streams is limited by the sum", async (t) => {
    const { client } = connect(t, { limits: { bufferedBytes: 512 * kib } });
    for (let id = 1; id < 200; id += 2) client.send(client.open(id));
    const taken = await flood(client, 100, (index) => data(1 + 2 * index, Buffer.alloc(64 * kib)));
    assert.ok(taken >= 7 && taken <= 12, `${String(taken)} chunks of 64 KiB were taken`);
  });

  test("pings and does not read the answers is paused, until it reads", async (t) => {
    const { client, far } = connect(t);
    far.pause();
    const pings = Buffer.concat(Array.from({ length: 1000 }, () => pingFrame(1)));
    const taken = await flood(client, 1000, () => pings);
    assert.ok(taken <= 15, `${String(taken)} thousands of pings were taken`);
    far.resume();
    assert.equal(await flood(client, 20, () => pings), 20);
  });

  test("to a destroyed stream does not pause the others", async (t) => {
    const { client, streams } = connect(t);
    client.send(client.open(1), client.open(3));
    const taken = await flood(client, 100, () => data(1, Buffer.alloc(64 * kib)));
    assert.ok(taken < 100);
    // The session destroys the stream.
    streams[0]!.destroy();
    streams[1]!.resume();
    assert.equal(await flood(client, 100, () => data(3, Buffer.alloc(64 * kib))), 100);
  });

  test("many header blocks at once does not block other connections, and loses none", async (t) => {
    const { client, streams } = connect(t, { limits: { headerBlocksPerTurn: 10 } });
    const frames = [client.open(1)];
    for (let index = 0; index < 100; index += 1) {
      frames.push(headersFrame(1, client.blocks.block([["n", String(index)]])), client.open(3 + 2 * index));
    }
    let turns = 0;
    const count = (): void => {
      turns += 1;
      if (streams.length < 101) setImmediate(count);
    };
    setImmediate(count);
    client.send(...frames, pingFrame(1));
    await client.answer(({ type }) => type === frameType.ping);
    assert.equal(streams.length, 101);
    assert.ok(turns >= 15, `all in ${String(turns)} turns`);
  });

  test("one SYN_STREAM after another gets no more streams than the limit, and others when it closes some", async (t) => {
    const { client, streams } = connect(t, { limits: { streams: 10 } });
    for (let id = 1; id < 100; id += 2) client.send(client.open(id));
    client.send(rstStreamFrame(1, resetStatus.cancel), client.open(101), pingFrame(1));
    await client.answer(({ type }) => type === frameType.ping);
    assert.deepEqual(pluck(streams, "id"), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 101]);
    assert.equal(client.answers.filter(({ type }) => type === frameType.rstStream).length, 40);
  });

  test("half a frame takes only the memory of its bytes", async (t) => {
    const { client, connection, streams } = connect(t);
    client.send(client.open(1), dataFrameHeader(1, 0xff_ffff, { fin: true }), Buffer.from("begin"));
    while (streams.length === 0) await new Promise(setImmediate);
    const [bytes] = (await once(streams[0]!, "data")) as [Buffer];
    assert.equal(bytes.toString(), "begin");
    client.transport.end();
    await connection.closed;
  });
});

test("a client that disconnects while reading is paused is detected", async (t) => {
  const { client, connection, far, near } = connect(t, { limits: { probeMs: 1 } });
  client.send(client.open(1));
  await flood(client, 100, () => data(1, Buffer.alloc(64 * kib)));
  // As with a socket: without reading, only a write fails.
  near.peer = undefined;
  far.destroy();
  near._write = (_chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void) => {
    done(new Error("write EPIPE"));
  };
  // The probe timer does not keep the process alive.
  const alive = setInterval(() => undefined, 1000);
  await connection.closed;
  clearInterval(alive);
});
