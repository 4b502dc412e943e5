import { describe, test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { ProtocolError } from "../../../../src/lib/http2/frames.js";
import { encodeFields, HpackDecoder, huffmanDecode } from "../../../../src/lib/http2/hpack.js";

import { indexed, integer, literal, type Coding, type Indexing } from "../../grpc/http2-writer.js";

function decodeHex(decoder: HpackDecoder, hex: string): string[] {
  return decoder
    .decode(Buffer.from(hex.replaceAll(" ", ""), "hex"))
    .map(({ name, value }) => `${name}: ${value}`);
}

const longWay = ["custom-key: custom-value"];
const exampleRequests = [
  [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
  [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"],
  [":method: GET", ":scheme: https", ":path: /index.html", ":authority: www.example.com", ...longWay],
];

describe("HpackDecoder", () => {
  // RFC 7541, appendix C.3 and C.4.
  const examples = {
    raw: [
      "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
      "8286 84be 5808 6e6f 2d63 6163 6865",
      "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ],
    "Huffman coded": [
      "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
      "8286 84be 5886 a8eb 1064 9cbf",
      "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ],
  };
  for (const [name, blocks] of Object.entries(examples)) {
    test(`reads the ${name} requests of the RFC, one after the other`, () => {
      const decoder = new HpackDecoder();
      for (const [index, block] of blocks.entries())
        assert.deepEqual(decodeHex(decoder, block), exampleRequests[index]);
    });
  }

  test("forgets the oldest entries when the table is full, as appendix C.5 of the RFC counts", () => {
    const decoder = new HpackDecoder();
    // Entries of 32 + 1 + 2015 bytes: two of them fill the table.
    for (const value of ["a", "b", "c"]) decoder.decode(literal("n", value.repeat(2015), "incremental"));
    assert.equal(decoder.decode(indexed(62))[0]?.value[0], "c");
    assert.equal(decoder.decode(indexed(63))[0]?.value[0], "b");
    assert.throws(() => decoder.decode(indexed(64)), ProtocolError);
  });

  test("empties the table for an entry that is larger than the table", () => {
    const decoder = new HpackDecoder();
    decoder.decode(literal("n", "small", "incremental"));
    decoder.decode(literal("n", "x".repeat(4096), "incremental"));
    assert.throws(() => decoder.decode(indexed(62)), ProtocolError);
  });

  test("follows a client that makes the table smaller", () => {
    const decoder = new HpackDecoder();
    decoder.decode(literal("n", "small", "incremental"));
    decoder.decode(Buffer.concat([integer(0, 5, 0x20), integer(4096, 5, 0x20), indexed(2)]));
    assert.throws(() => decoder.decode(indexed(62)), ProtocolError);
  });

  const again = Buffer.alloc(100, 0xbe);
  const malformed: readonly (readonly [name: string, block: Buffer])[] = [
    ["index 0", Buffer.of(0x80)],
    ["a number without end", Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)],
    ["a cut number", Buffer.of(0xff)],
    ["a cut literal", Buffer.of(0x41)],
    ["a string beyond the block", Buffer.of(0x41, 10, 0x61)],
    ["a larger table than allowed", integer(4097, 5, 0x20)],
    ["a change of the table behind a field", Buffer.concat([indexed(2), integer(0, 5, 0x20)])],
    ["a list that grows without end", Buffer.concat([literal("n", "x".repeat(4000), "incremental"), again])],
    ["Huffman padding of zeros", Buffer.of(0x41, 0x81, 0x00)],
    ["Huffman padding of a whole byte", Buffer.of(0x41, 0x82, 0x1f, 0xff)],
    ["the end mark of the Huffman code", Buffer.of(0x41, 0x84, 0xff, 0xff, 0xff, 0xff)],
  ];
  for (const [name, block] of malformed) {
    test(`refuses ${name}`, () => {
      assert.throws(() => new HpackDecoder().decode(block), ProtocolError);
    });
  }

  const octets = fc.string({
    unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
  });
  const field = fc.record({
    name: octets,
    value: octets,
    indexing: fc.constantFrom<Indexing>("incremental", "without", "never"),
    coding: fc.constantFrom<Coding>("raw", "huffman"),
  });

  test("reads every field in every form", () => {
    fc.assert(
      fc.property(fc.array(field), (fields) => {
        const forms = fields.map((form) => literal(form.name, form.value, form.indexing, form.coding));
        const block = Buffer.concat(forms);
        const expected = fields.map(({ name, value, indexing }) => ({
          name,
          value,
          neverIndexed: indexing === "never",
        }));
        assert.deepEqual(new HpackDecoder().decode(block), expected);
        // What encodeFields() writes is the same list, for any state of the reader.
        const decoder = new HpackDecoder();
        decoder.decode(block);
        assert.deepEqual(decoder.decode(encodeFields(expected)), expected);
      }),
    );
  });

  test("either reads arbitrary bytes or throws a ProtocolError", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        for (const read of [(b: Buffer) => new HpackDecoder().decode(b), huffmanDecode]) {
          try {
            read(Buffer.from(bytes));
          } catch (error) {
            assert.ok(error instanceof ProtocolError);
          }
        }
      }),
    );
  });
});
