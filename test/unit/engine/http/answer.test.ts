import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { splitLines } from "../../../../src/shim/engine/http/answer.js";

/** `bytes` in pieces of the given sizes, the last one repeated. */
function* pieces(bytes: Buffer, sizes: readonly number[]): Generator<Buffer> {
  let index = 0;
  for (let start = 0; start < bytes.length; index += 1) {
    const size = sizes[Math.min(index, sizes.length - 1)] ?? 1;
    yield bytes.subarray(start, start + size);
    start += size;
  }
}

async function* stream(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (const piece of pieces(bytes, sizes)) {
    await Promise.resolve();
    yield piece;
  }
}

const chunkSizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 });

describe("splitLines()", () => {
  const options = { action: "read lines", limitBytes: 100 };

  async function lines(text: string, sizes: readonly number[]): Promise<readonly string[]> {
    const found: string[] = [];
    for await (const line of splitLines(stream(Buffer.from(text), sizes), options)) found.push(line);
    return found;
  }

  test("lines come out whole however they are cut, also within a character", async () => {
    const line = fc
      .array(fc.constantFrom("a", "é", "€", "😀"), { minLength: 1, maxLength: 20 })
      .map((all) => all.join(""));
    await fc.assert(
      fc.asyncProperty(
        fc.array(line),
        chunkSizes,
        fc.constantFrom("\n", "\r\n", "\n\n"),
        async (expected, sizes, end) => {
          assert.deepEqual(await lines(expected.map((one) => one + end).join(""), sizes), expected);
        },
      ),
    );
  });

  test("the last line needs no end", async () => {
    assert.deepEqual(await lines("a\nb", [1]), ["a", "b"]);
  });

  test("a line that grows without an end is refused before it is all in memory", async () => {
    await assert.rejects(lines("x".repeat(101), [10]), { kind: "exhausted" });
    assert.deepEqual(await lines("x".repeat(100), [10]), ["x".repeat(100)]);
  });
});
