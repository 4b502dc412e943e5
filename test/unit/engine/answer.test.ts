import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isKind } from "../../../src/shim/base/errors.js";
import { splitLines } from "../../../src/shim/engine/answer.js";
import { demultiplex } from "../../../src/shim/engine/demultiplex.js";

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
    await assert.rejects(lines("x".repeat(101), [10]), (error) => isKind(error, "exhausted"));
    assert.deepEqual(await lines("x".repeat(100), [10]), ["x".repeat(100)]);
  });
});

describe("demultiplex()", () => {
  function frame(type: number, data: string): Buffer {
    const header = Buffer.alloc(8);
    header.writeUInt8(type, 0);
    header.writeUInt32BE(Buffer.byteLength(data), 4);
    return Buffer.concat([header, Buffer.from(data)]);
  }

  async function read(bytes: Buffer, sizes: readonly number[]): Promise<readonly [string, string][]> {
    const found: [string, string][] = [];
    for await (const { stream: name, data } of demultiplex(stream(bytes, sizes))) {
      const last = found.at(-1);
      if (last?.[0] === name) last[1] += data.toString("latin1");
      else found.push([name, data.toString("latin1")]);
    }
    return found;
  }

  test("frames come out in order however they are cut", async () => {
    const frames = fc.array(fc.tuple(fc.constantFrom(1, 2), fc.stringMatching(/^[a-z]{0,50}$/)));
    await fc.assert(
      fc.asyncProperty(frames, chunkSizes, async (sent, sizes) => {
        const expected: [string, string][] = [];
        for (const [type, data] of sent) {
          const name = type === 1 ? "stdout" : "stderr";
          if (data === "") continue;
          const last = expected.at(-1);
          if (last?.[0] === name) last[1] += data;
          else expected.push([name, data]);
        }
        const bytes = Buffer.concat(sent.map(([type, data]) => frame(type, data)));
        assert.deepEqual(await read(bytes, sizes), expected);
      }),
    );
  });

  test("an end within a header or a frame is a broken connection", async () => {
    const bytes = frame(1, "hello");
    for (const length of [3, 8, 10]) {
      await assert.rejects(read(bytes.subarray(0, length), [100]), (error) => isKind(error, "unavailable"));
    }
  });

  test("an error that the engine reports is thrown with its words, after the output before it", async () => {
    await assert.rejects(read(Buffer.concat([frame(1, "out"), frame(3, "disk gone")]), [5]), {
      kind: "unknown",
      message: "read process output: disk gone",
    });
  });

  test("what is no frame is refused", async () => {
    for (const bytes of [
      Buffer.from("plain text"),
      frame(9, "x"),
      Buffer.from([1, 0, 0, 0, 255, 255, 255, 255]),
    ]) {
      await assert.rejects(read(bytes, [100]), (error) => isKind(error, "unknown"));
    }
  });

  test("nothing is read ahead of whoever takes the output", async () => {
    let taken = 0;
    async function* source(): AsyncGenerator<Buffer> {
      for (;;) {
        taken += 1;
        await Promise.resolve();
        yield frame(1, "x");
      }
    }
    const output = demultiplex(source());
    await output.next();
    await output.next();
    await new Promise(setImmediate);
    assert.equal(taken, 2);
    await output.return();
  });
});
