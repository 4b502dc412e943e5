import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { constants, createDeflate } from "node:zlib";
import { FrameParser } from "../../../../src/lib/spdy/frame-parser.js";
import {
  EmptyHeaderBlocks,
  HeaderBlockReader,
  headerDictionary,
  headerDictionaryId,
} from "../../../../src/shim/streaming/spdy/header-block.js";
import { defaultSpdyLimits } from "../../../../src/shim/streaming/spdy/limits.js";
import { inflateBlocks } from "./spdy-client.js";
import { BlockWriter, number, plainBlock, type HeaderList } from "../../../support/spdy-frames.js";

const limits = defaultSpdyLimits;

/** What moby/spdystream 0.5.1 writes: five SYN_STREAM frames and one HEADERS. */
const recorded = [
  "80030001000000290000000100000000000078f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff",
  "800300010000001700000003000000000000c22e555c92929907000000ffff",
  "800300010000002c00000005000000000000022555dcba580af28bc0f9c6c2c0c280818181b30812f999a04cc16800000000ffff",
  "800300010000001c00000007000000000000826ac61445350e549e25a29b06000000ffff",
  "80030001000000230000000900000000000082ba89b1025492a4651615973014a726e7e7a500000000ffff",
  "800300080000001000000009824980f2296315000000ffff",
];

describe("a header block reader", () => {
  test("reads the block of a Go client", () => {
    const reader = new HeaderBlockReader(limits);
    const parser = new FrameParser(limits);
    const read = [...parser.read(Buffer.from(recorded.join(""), "hex"))].map((frame) => {
      assert.ok("headerBlock" in frame);
      return Object.fromEntries(reader.read(frame.headerBlock));
    });
    assert.deepEqual(read, [
      { streamtype: "error" },
      { streamtype: "stdin" },
      { streamtype: "error", port: "8080", requestid: "0" },
      { streamtype: "data", port: "8080", requestid: "0" },
      // The first of several values.
      { x: "first" },
      { y: "z" },
    ]);
  });

  test("reads the blocks of one stream that zlib itself writes, far beyond its window", async () => {
    const deflate = createDeflate({ dictionary: headerDictionary });
    const reader = new HeaderBlockReader(limits);
    for (let requestid = 0; requestid < 2_000; requestid += 1) {
      const headers = {
        streamtype: requestid % 2 === 0 ? "error" : "data",
        port: "8080",
        requestid: `${requestid}`,
      };
      deflate.write(plainBlock(Object.entries(headers)));
      await new Promise<void>((resolve) => deflate.flush(constants.Z_SYNC_FLUSH, resolve));
      // From Node.js 26 on, one read() is one of them.
      const parts: Buffer[] = [];
      for (let part; (part = deflate.read() as Buffer | null) !== null;) parts.push(part);
      assert.deepEqual(Object.fromEntries(reader.read(Buffer.concat(parts))), headers);
    }
  });

  test("reads a stream that names no dictionary", () => {
    const stored = Buffer.of(0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff);
    const reader = new HeaderBlockReader(limits);
    assert.equal(reader.read(Buffer.concat([Buffer.of(0x78, 0x01), stored])).size, 0);
    assert.equal(reader.read(stored).size, 0);
  });

  const list = (...headers: HeaderList): Buffer => plainBlock(headers);
  const many = Array.from({ length: 101 }, (_, index) => [`n${String(index)}`, ""] as const);
  const malformed: [name: string, plain: Buffer, reason: RegExp][] = [
    ["that is empty", Buffer.alloc(0), /ends too early/],
    ["whose count is cut", Buffer.of(0, 0, 0), /ends too early/],
    ["with fewer headers than its count", number(1), /ends too early/],
    ["with a length beyond its end", Buffer.concat([number(1), number(0xffff_ffff)]), /ends too early/],
    ["whose last value is cut", list(["a", "bc"]).subarray(0, -1), /ends too early/],
    ["with more than its count", Buffer.concat([list(["a", "b"]), number(0)]), /bytes after its headers/],
    ["with an empty name", list(["", "x"]), /empty or upper-case name/],
    ["with an upper-case name", list(["streamType", "x"]), /empty or upper-case name/],
    ["with a name twice", list(["a", "x"], ["a", "y"]), /the same name twice/],
    ["with too many headers", list(...many), /of 101 headers/],
    ["with a count that no block can have", number(0xffff_ffff), /of 4294967295 headers/],
    ["with too many bytes", list(["a", "x".repeat(limits.inflatedHeaderBytes)]), /more than 65536 bytes/],
    ["that is a bomb", Buffer.alloc(50_000_000), /more than 65536 bytes/],
  ];
  for (const [name, plain, reason] of malformed) {
    test(`refuses a block ${name}`, () => {
      const block = new BlockWriter().deflate(plain);
      assert.throws(() => new HeaderBlockReader(limits).read(block), { kind: "invalid", message: reason });
    });
  }

  const zlibHead = Buffer.concat([Buffer.of(0x78, 0xf9), headerDictionaryId]);
  const foreign: [name: string, block: Buffer, reason: RegExp][] = [
    ["without bytes", Buffer.alloc(0), /without a zlib header/],
    ["that is not compressed", list(["a", "b"]), /without a zlib header/],
    ["with another dictionary", Buffer.of(0x78, 0xf9, 1, 2, 3, 4, 0, 0, 0, 0xff, 0xff), /unknown dictionary/],
    ["that is not flushed", new BlockWriter().block([["a", "b"]]).subarray(0, -1), /not flushed/],
    ["of a reserved kind", Buffer.concat([zlibHead, Buffer.of(7, 0, 0, 0xff, 0xff)]), /cannot be inflated/],
  ];
  for (const [name, block, reason] of foreign) {
    test(`refuses a first block ${name}`, () => {
      assert.throws(() => new HeaderBlockReader(limits).read(block), { kind: "invalid", message: reason });
    });
  }
});

test("the empty blocks of the replies are one zlib stream with the dictionary", async () => {
  const blocks = new EmptyHeaderBlocks();
  const three = [blocks.next(), blocks.next(), blocks.next()];
  assert.deepEqual(three[0]!.subarray(2, 6), headerDictionaryId);
  assert.deepEqual(await inflateBlocks(three), Buffer.alloc(12));
});
