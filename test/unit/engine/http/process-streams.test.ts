import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { OutputFrames } from "../../../../src/shim/engine/http/process-streams.js";
import { pieces } from "../pieces.js";

const chunkSizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 });

function frame(type: number, data: string): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt8(type, 0);
  header.writeUInt32BE(Buffer.byteLength(data), 4);
  return Buffer.concat([header, Buffer.from(data)]);
}

/**
 * What comes out of `bytes` in pieces of the given sizes; `found` also when it throws.
 */
function read(
  bytes: Buffer,
  sizes: readonly number[],
  found: [string, string][] = [],
): readonly [string, string][] {
  const frames = new OutputFrames();
  for (const piece of pieces(bytes, sizes)) {
    void frames.push(piece, (name, data) => {
      const last = found.at(-1);
      if (last?.[0] === name) last[1] += data.toString("latin1");
      else found.push([name, data.toString("latin1")]);
      return undefined;
    });
  }
  frames.end();
  return found;
}

describe("OutputFrames", () => {
  test("frames come out in order however they are cut", () => {
    const frames = fc.array(fc.tuple(fc.constantFrom(1, 2), fc.stringMatching(/^[a-z]{0,50}$/)));
    fc.assert(
      fc.property(frames, chunkSizes, (sent, sizes) => {
        const expected: [string, string][] = [];
        for (const [type, data] of sent) {
          const name = type === 1 ? "stdout" : "stderr";
          if (data === "") continue;
          const last = expected.at(-1);
          if (last?.[0] === name) last[1] += data;
          else expected.push([name, data]);
        }
        const bytes = Buffer.concat(sent.map(([type, data]) => frame(type, data)));
        assert.deepEqual(read(bytes, sizes), expected);
      }),
    );
  });

  test("an end within a header or a frame is a broken connection", () => {
    const bytes = frame(1, "hello");
    for (const length of [3, 8, 10]) {
      assert.throws(() => read(bytes.subarray(0, length), [100]), { kind: "unavailable" });
    }
  });

  test("an error that the engine reports is thrown with its words, after the output before it", () => {
    const found: [string, string][] = [];
    assert.throws(() => read(Buffer.concat([frame(1, "out"), frame(3, "disk gone")]), [5], found), {
      kind: "unknown",
      message: "read process output: disk gone",
    });
    assert.deepEqual(found, [["stdout", "out"]]);
  });

  test("an error without an end fills no memory", () => {
    assert.throws(() => read(frame(3, "x".repeat(1_000_000)), [1000]), { message: /^.{4000,4200}$/ });
  });

  test("data that is not a frame is refused", () => {
    for (const bytes of [
      Buffer.from("plain text"),
      frame(9, "x"),
      Buffer.from([1, 0, 0, 0, 255, 255, 255, 255]),
    ]) {
      assert.throws(() => read(bytes, [100]), { kind: "unknown" });
    }
  });

  test("waits for the slowest taker of a piece of the chunk", async () => {
    const wakes: (() => void)[] = [];
    const wait = new OutputFrames().push(
      Buffer.concat([frame(1, "a"), frame(2, "b"), frame(1, "c")]),
      (_, data) =>
        data.toString() === "b" ? undefined : new Promise<void>((resolve) => wakes.push(resolve)),
    );
    let isDone = false;
    const done = wait?.then(() => (isDone = true));
    wakes[0]?.();
    await new Promise(setImmediate);
    assert.equal(isDone, false);
    wakes[1]?.();
    await done;
    assert.equal(isDone, true);
  });
});

test("push() that throws leaves no rejected promise of a taker unhandled", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  try {
    const chunk = Buffer.concat([frame(1, "a"), Buffer.from("this is no frame")]);
    assert.throws(() =>
      new OutputFrames().push(chunk, async () => {
        await Promise.resolve();
        throw new Error("the caller has left");
      }),
    );
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(unhandled, []);
  } finally {
    process.off("unhandledRejection", note);
  }
});
