import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { FrameParser } from "../../../../src/lib/spdy/frame-parser.js";
import {
  controlFrame,
  dataFrameHeader,
  emptySettingsFrame,
  frameType,
  goAwayFrame,
  pingFrame,
  rstStreamFrame,
  type Frame,
} from "../../../../src/lib/spdy/frames.js";
import { data, headersFrame, number, synStream } from "../../../support/spdy-frames.js";

const limits = { frameBytes: 1000 };
const nothing = Buffer.alloc(0);

function parse(bytes: Buffer, cuts: readonly number[] = []): Frame[] {
  const parser = new FrameParser(limits);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return places
    .slice(1)
    .flatMap((end, index) => [...parser.read(Buffer.from(bytes.subarray(places[index], end)))]);
}

/** Pieces of one data frame become one. */
function joinPieces(frames: readonly Frame[]): Frame[] {
  const joined: Frame[] = [];
  for (const frame of frames) {
    const before = joined.at(-1);
    if (frame.kind === "data" && before?.kind === "data" && !before.last) {
      assert.equal(before.streamId, frame.streamId);
      joined[joined.length - 1] = { ...frame, bytes: Buffer.concat([before.bytes, frame.bytes]) };
    } else joined.push(frame);
  }
  return joined;
}

const id = fc.integer({ min: 1, max: 0x7fff_ffff });
const word = fc.integer({ min: 0, max: 0xffff_ffff });
const payload = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));

/** A frame as bytes, and the parsed frame; undefined when it is ignored. */
const sample: fc.Arbitrary<{ bytes: Buffer; frame: Frame | undefined }> = fc.oneof(
  fc.tuple(id, payload, fc.boolean()).map(([streamId, bytes, fin]) => ({
    bytes: data(streamId, bytes, { fin }),
    frame: { kind: "data" as const, streamId, bytes, last: true, fin },
  })),
  fc.tuple(id, payload, fc.boolean(), fc.boolean()).map(([streamId, headerBlock, fin, unidirectional]) => ({
    bytes: synStream(streamId, headerBlock, (fin ? 1 : 0) + (unidirectional ? 2 : 0)),
    frame: { kind: "synStream" as const, streamId, fin, unidirectional, headerBlock },
  })),
  fc.tuple(id, payload, fc.boolean()).map(([streamId, headerBlock, fin]) => ({
    bytes: headersFrame(streamId, headerBlock, fin ? 1 : 0),
    frame: { kind: "headers" as const, streamId, fin, headerBlock },
  })),
  fc.tuple(id, word).map(([streamId, status]) => ({
    bytes: rstStreamFrame(streamId, status),
    frame: { kind: "rstStream" as const, streamId, status },
  })),
  word.map((ping) => ({ bytes: pingFrame(ping), frame: { kind: "ping" as const, id: ping } })),
  id.map((lastStreamId) => ({
    bytes: goAwayFrame(lastStreamId, 0),
    frame: { kind: "goAway" as const, lastStreamId, status: 0 },
  })),
  fc.constant({ bytes: emptySettingsFrame(), frame: undefined }),
  fc
    .tuple(fc.constantFrom(0, 5, 9, 10, 0xffff), payload, fc.integer({ min: 0, max: 255 }))
    .map(([type, rest, flags]) => ({ bytes: controlFrame(type, flags, [], rest), frame: undefined })),
);

describe("a frame parser", () => {
  test("reads every frame, however the bytes are chunked", () => {
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 12 }), fc.array(fc.nat(5000)), (samples, cuts) => {
        const frames = joinPieces(parse(Buffer.concat(samples.map(({ bytes }) => bytes)), cuts));
        const expected = samples.flatMap(({ frame }) => frame ?? []);
        assert.deepEqual(frames, expected);
      }),
      { numRuns: 1000 },
    );
  });

  test("passes a data frame of the largest size on as it comes, without holding it", () => {
    const parser = new FrameParser(limits);
    assert.deepEqual([...parser.read(dataFrameHeader(1, 0xff_ffff, { fin: true }))], []);
    const chunk = Buffer.alloc(0xff_ffff / 255);
    for (let left = 0xff_ffff; left > 0; left -= chunk.length) {
      const [piece, ...rest] = parser.read(chunk);
      assert.deepEqual(rest, []);
      assert.ok(piece?.kind === "data");
      assert.equal(piece.bytes.buffer, chunk.buffer, "copied");
      assert.equal(piece.last, left === chunk.length);
      assert.equal(piece.fin, piece.last);
    }
  });

  test("passes over unknown control frames of any size", () => {
    const header = controlFrame(77, 0, []);
    header.writeUIntBE(200_000, 5, 3);
    assert.deepEqual(parse(Buffer.concat([header, Buffer.alloc(200_000, 0xff), pingFrame(5)]), [9, 70_000]), [
      { kind: "ping", id: 5 },
    ]);
  });

  const violations: [name: string, bytes: Buffer, reason: RegExp][] = [
    ["data of stream 0", data(0, "x"), /a data frame of stream 0/],
    ["a stream with the id 0", synStream(0, nothing), /a control frame of stream 0/],
    ["another version", Buffer.concat([Buffer.of(0x80, 2), pingFrame(1).subarray(2)]), /of version 2, not 3/],
    ["a control frame above the limit", synStream(1, Buffer.alloc(991)), /of 1001 bytes, more than 1000/],
    ["too short a SYN_STREAM", controlFrame(frameType.synStream, 0, [1, 0]), /a SYN_STREAM of 8 bytes/],
    ["a HEADERS frame without id", controlFrame(frameType.headers, 0, []), /a HEADERS of 0 bytes/],
    ["a PING that is too long", controlFrame(frameType.ping, 0, [1, 1]), /a PING of 8 bytes/],
    ["an RST_STREAM without status", controlFrame(frameType.rstStream, 0, [1]), /an? RST_STREAM of 4 bytes/],
    ["a GOAWAY of SPDY/2", controlFrame(frameType.goAway, 0, [1]), /a GOAWAY of 4 bytes/],
    ["a SYN_REPLY", controlFrame(frameType.synReply, 0, [1], number(0)), /a SYN_REPLY/],
  ];
  for (const [name, bytes, reason] of violations) {
    test(`refuses ${name}`, () => {
      assert.throws(() => parse(bytes), { kind: "invalid", message: reason });
    });
  }

  test("accepts a control frame at the limit", () => {
    assert.equal(parse(synStream(1, Buffer.alloc(990))).length, 1);
  });
});
