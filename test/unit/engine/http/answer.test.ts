import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { describe, test } from "node:test";
import fc from "fast-check";
import { readBody, smallBytes, splitLines } from "../../../../src/shim/engine/http/answer.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { Semaphore } from "../../../../src/lib/sync/semaphore.js";
import { streamOf } from "../pieces.js";

describe("splitLines()", () => {
  const options = { action: "read lines", limitBytes: 100 };

  async function lines(text: string, sizes: readonly number[]): Promise<readonly string[]> {
    const found: string[] = [];
    const all = splitLines(streamOf(Buffer.from(text), sizes), options);
    for await (const line of all) found.push(line);
    return found;
  }

  test("lines come out whole however they are cut, also within a character", async () => {
    const line = fc
      .array(fc.constantFrom("a", "é", "€", "😀"), { minLength: 1, maxLength: 20 })
      .map((all) => all.join(""));
    await fc.assert(
      fc.asyncProperty(
        fc.array(line),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 }),
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

describe("readBody() while as many large answers as there are places stop in the middle", () => {
  const large = new Semaphore(2);
  const read = (body: PassThrough, signal = new AbortController().signal): Promise<Buffer> =>
    readBody(body as unknown as IncomingMessage, { action: "read", limitBytes: 1e6, large }, signal);
  const turn = (): Promise<void> => new Promise(setImmediate);

  /** Two answers that have taken both places and do not go on, and their readings. */
  async function stalled() {
    const bodies = [new PassThrough(), new PassThrough()] as const;
    const readings = bodies.map((body) => read(body));
    for (const body of bodies) body.write(Buffer.alloc(smallBytes + 1));
    await turn();
    return { bodies, readings };
  }

  test("reads a small one, and another large one when one of them ends", async () => {
    const { bodies, readings } = await stalled();
    const waiting = new PassThrough();
    let isRead = false;
    const reading = read(waiting).finally(() => (isRead = true));
    waiting.write(Buffer.alloc(smallBytes + 1));
    await turn();
    waiting.end(Buffer.alloc(1));
    const small = new PassThrough();
    small.end(Buffer.alloc(smallBytes));
    assert.equal((await read(small)).length, smallBytes);
    await turn();
    assert.equal(isRead, false);
    bodies[0].end();
    assert.equal((await reading).length, smallBytes + 2);
    bodies[1].end();
    await Promise.all(readings);
  });

  test("one that waits leaves with its caller or its connection, and takes no place", async () => {
    const { bodies, readings } = await stalled();
    const caller = new AbortController();
    const left = new PassThrough();
    const broken = new PassThrough();
    const waiting = [read(left, caller.signal), read(broken)];
    for (const body of [left, broken]) body.write(Buffer.alloc(smallBytes + 1));
    await turn();
    caller.abort(new ShimError("cancelled", "the kubelet left"));
    broken.destroy();
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
