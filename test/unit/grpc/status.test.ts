import { describe, test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { cutText } from "../../../src/shim/grpc/status.js";

describe("cutText()", () => {
  test("keeps whole characters that fit, and all of a text that fits", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.nat(40), (text, limit) => {
        const cut = cutText(text, limit);
        assert.ok(Buffer.byteLength(cut) <= limit);
        assert.ok(text.startsWith(cut));
        const next = Array.from(text.slice(cut.length))[0];
        if (next !== undefined)
          assert.ok(Buffer.byteLength(cut + next) > limit, "another character would have fitted");
      }),
    );
  });

  test("replaces unpaired surrogates, which no header can carry", () => {
    assert.equal(cutText("a\ud800b\udc00", 100), "a\ufffdb\ufffd");
  });
});
