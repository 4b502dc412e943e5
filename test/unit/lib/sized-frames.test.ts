import assert from "node:assert/strict";
import { test } from "node:test";
import { SizedFrames } from "../../../src/lib/sized-frames.js";

const bounds = { headBytes: 8, limitBytes: 16 };

function frame(text: string): Buffer {
  const bytes = Buffer.concat([Buffer.alloc(8), Buffer.from(text)]);
  bytes.writeUInt32LE(bytes.length, 0);
  return bytes;
}

test("SizedFrames gives the same frames wherever the stream is cut", () => {
  const frames = [frame("one"), frame(""), frame("12345678")];
  const stream = Buffer.concat(frames);
  for (let at = 0; at <= stream.length; at += 1) {
    const reader = new SizedFrames(bounds, (bytes) => bytes);
    const taken = [...reader.take(stream.subarray(0, at)), ...reader.take(stream.subarray(at))];
    assert.deepEqual(taken, frames, `cut at ${at}`);
  }
});

test("SizedFrames refuses a frame that is smaller than a head or larger than the limit", () => {
  for (const size of [0, 7, 17, 0xffff_ffff]) {
    const bytes = Buffer.alloc(8);
    bytes.writeUInt32LE(size, 0);
    const reader = new SizedFrames(bounds, (taken) => taken);
    assert.throws(() => reader.take(bytes), /an answer of an impossible size/);
  }
});
