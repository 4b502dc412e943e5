import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { describe, test } from "node:test";
import fc from "fast-check";
import { readBody, smallBytes, splitLines } from "../../../../src/shim/engine/http/answer.js";
import { HttpAnswer } from "../../../../src/shim/engine/http/connection.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { Semaphore } from "../../../../src/lib/sync/semaphore.js";
import { streamOf, pieces } from "../pieces.js";
import { OutputFrames } from "../../../../src/shim/engine/http/process-streams.js";
import { turns } from "../../../fakes/turns.js";

const chunkSizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 });

describe("splitLines()", () => {
  const options = { action: "read lines", limitBytes: 100 };

  async function lines(text: string, sizes: readonly number[]): Promise<readonly string[]> {
    const found: string[] = [];
    const all = splitLines(streamOf(Buffer.from(text), sizes), options);
    for await (const line of all) found.push(line);
    return found;
  }

  test("lines come out whole however they are cut, also within a character", async () => {
    const line = fc.string({ unit: fc.constantFrom("a", "é", "€", "😀"), minLength: 1, maxLength: 20 });
    const ends = fc.constantFrom("\n", "\r\n", "\n\n");
    await fc.assert(
      fc.asyncProperty(fc.array(line), chunkSizes, ends, async (expected, sizes, end) => {
        assert.deepEqual(await lines(expected.map((one) => one + end).join(""), sizes), expected);
      }),
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

/** An answer whose bytes arrive when a test says so, and while it is not paused. */
class Body {
  #held: Buffer[] | undefined;
  #hasEnded = false;
  readonly answer = new HttpAnswer({ status: 200, headers: {} }, {
    pause: () => (this.#held ??= []),
    resume: () => {
      const held = this.#held ?? [];
      this.#held = undefined;
      for (const chunk of held) this.write(chunk);
      if (this.#hasEnded) this.end();
    },
    destroy: () => undefined,
  } as unknown as Socket);

  write(chunk: Buffer): void {
    if (this.#held === undefined) this.answer.take(chunk);
    else this.#held.push(chunk);
  }

  end(last?: Buffer): void {
    if (last !== undefined) this.write(last);
    this.#hasEnded = true;
    if (this.#held === undefined) this.answer.finish("whole");
  }
}

describe("readBody() while as many large answers as there are places stop in the middle", () => {
  const large = new Semaphore(2);
  const read = ({ answer }: Body, signal = new AbortController().signal): Promise<Buffer> =>
    readBody(answer, { action: "read", limitBytes: 1e6, large }, signal);

  /** Two answers that have taken both places and do not go on, and their readings. */
  async function stalled() {
    const bodies = [new Body(), new Body()] as const;
    const readings = bodies.map((body) => read(body));
    for (const body of bodies) body.write(Buffer.alloc(smallBytes + 1));
    await turns(1);
    return { bodies, readings };
  }

  test("reads a small one, and another large one when one of them ends", async () => {
    const { bodies, readings } = await stalled();
    const waiting = new Body();
    let isRead = false;
    const reading = read(waiting).finally(() => (isRead = true));
    waiting.write(Buffer.alloc(smallBytes + 1));
    await turns(1);
    waiting.end(Buffer.alloc(1));
    const small = new Body();
    small.end(Buffer.alloc(smallBytes));
    assert.equal((await read(small)).length, smallBytes);
    await turns(1);
    assert.equal(isRead, false);
    bodies[0].end();
    assert.equal((await reading).length, smallBytes + 2);
    bodies[1].end();
    await Promise.all(readings);
  });

  test("one that waits leaves with its caller or its connection, and takes no place", async () => {
    const { bodies, readings } = await stalled();
    const caller = new AbortController();
    const left = new Body();
    const broken = new Body();
    const waiting = [read(left, caller.signal), read(broken)];
    for (const body of [left, broken]) body.write(Buffer.alloc(smallBytes + 1));
    await turns(1);
    caller.abort(new ShimError("cancelled", "the kubelet left"));
    broken.answer.finish("broken");
    const outcomes = await Promise.allSettled(waiting);
    const kinds = outcomes.map((one) => one.status === "rejected" && ShimError.from(one.reason).kind);
    assert.deepEqual(kinds, ["cancelled", "unavailable"]);
    for (const body of bodies) body.end();
    await Promise.all(readings);
    const again = await stalled();
    for (const body of again.bodies) body.end();
    await Promise.all(again.readings);
  });
});

function frame(type: number, data: string): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt8(type, 0);
  header.writeUInt32BE(Buffer.byteLength(data), 4);
  return Buffer.concat([header, Buffer.from(data)]);
}

/** Adds to the last output if it is of the same stream. */
function join(found: [string, string][], name: string, data: string): undefined {
  const last = found.at(-1);
  if (last?.[0] === name) last[1] += data;
  else found.push([name, data]);
}

/** What comes out of `bytes` in pieces of the given sizes; `found` also when it throws. */
function read(
  bytes: Buffer,
  sizes: readonly number[],
  found: [string, string][] = [],
): readonly [string, string][] {
  const frames = new OutputFrames();
  for (const piece of pieces(bytes, sizes))
    void frames.push(piece, (name, data) => join(found, name, data.toString("latin1")));
  frames.end();
  return found;
}

describe("OutputFrames", () => {
  test("frames come out in order however they are cut", () => {
    const frames = fc.array(fc.tuple(fc.constantFrom(1, 2), fc.stringMatching(/^[a-z]{0,50}$/)));
    fc.assert(
      fc.property(frames, chunkSizes, (sent, sizes) => {
        const expected: [string, string][] = [];
        for (const [type, data] of sent)
          if (data !== "") join(expected, type === 1 ? "stdout" : "stderr", data);
        const bytes = Buffer.concat(sent.map(([type, data]) => frame(type, data)));
        assert.deepEqual(read(bytes, sizes), expected);
      }),
    );
  });

  test("an end within a header or a frame is a broken connection", () => {
    const bytes = frame(1, "hello");
    for (const length of [3, 8, 10])
      assert.throws(() => read(bytes.subarray(0, length), [100]), { kind: "unavailable" });
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
    ])
      assert.throws(() => read(bytes, [100]), { kind: "unknown" });
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
