import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { base64Codec, binaryCodec } from "../../../../src/shim/streaming/websocket/channel-codec.js";

for (const [name, codec] of Object.entries({ binaryCodec, base64Codec })) {
  describe(name, () => {
    test("decodes its own messages, on every channel", () => {
      fc.assert(
        fc.property(fc.integer({ min: 0, max: codec.channels - 1 }), fc.uint8Array(), (channel, data) => {
          assert.deepEqual(codec.decode(codec.encode(channel, data)), { channel, data: Buffer.from(data) });
        }),
      );
    });

    test("decodes any bytes without throwing", () => {
      fc.assert(fc.property(fc.uint8Array(), (bytes) => void codec.decode(Buffer.from(bytes))));
    });

    test("ignores an empty message", () => assert.equal(codec.decode(Buffer.alloc(0)), undefined));

    test("encodes a part of a larger buffer alone", () => {
      const part = Buffer.from("abcdef").subarray(2, 4);
      assert.deepEqual(codec.decode(codec.encode(1, part)), { channel: 1, data: Buffer.from("cd") });
    });
  });
}

describe("base64Codec", () => {
  test("is text with the channel as a digit", () => {
    assert.equal(base64Codec.encode(1, Buffer.from("hi")).toString(), "1aGk=");
  });

  test("stays ASCII on its last channel", () => {
    assert.ok(base64Codec.encode(base64Codec.channels - 1, Buffer.alloc(0)).readUInt8(0) < 0x80);
  });

  for (const message of ["0a", "0aGk", "0aGk=x", "0====", "0aG k=", "/aGk=", "0aG-_"]) {
    test(`calls ${JSON.stringify(message)} malformed`, () =>
      assert.equal(base64Codec.decode(Buffer.from(message)), "malformed"));
  }
});
