import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { ResizeParser, ResizeQueue } from "../../../src/shim/streaming/resize-queue.js";

const parse = (...chunks: string[]): unknown => {
  const parser = new ResizeParser();
  return chunks.flatMap((chunk) => parser.parse(Buffer.from(chunk)));
};

describe("ResizeParser", () => {
  const size = { columns: 80, rows: 24 };
  const small = { columns: 1, rows: 2 };
  for (const [name, chunks, expected] of [
    ["an object", ['{"Width":80,"Height":24}\n'], [size]],
    ["field names in any case", ['{"width":80,"HEIGHT":24}'], [size]],
    ["objects back to back", ['{"Width":80,"Height":24}{"Width":1,"Height":2}'], [size, small]],
    ["an object in pieces", ['{"Wid', 'th":80,"Hei', 'ght":24', "}"], [size]],
    ["unknown fields", ['{"Width":80,"Height":24,"Depth":3}'], [size]],
    ["sides below 1 left out", ['{"Width":0,"Height":24}{"Width":80}{"Width":80,"Height":24}'], [size]],
    ["nothing after malformed input", ['{"Width":"x"}', '{"Width":80,"Height":24}'], []],
    ["nothing of a side that 16 bits cannot hold", ['{"Width":65536,"Height":24}'], []],
    ["nothing of a negative side", ['{"Width":-1,"Height":24}'], []],
    ["nothing after an object without end", ["{" + "x".repeat(2000), '}{"Width":80,"Height":24}'], []],
    ["nothing of null", ["null}"], []],
  ] as const) {
    test(`reads ${name}`, () => assert.deepEqual(parse(...chunks), expected));
  }

  const side = fc.integer({ min: 1, max: 65_535 });
  const sides = fc.record({ Width: side, Height: side });

  test("gives the same sizes wherever the bytes are cut", () => {
    fc.assert(
      fc.property(fc.array(sides, { maxLength: 5 }), fc.integer({ min: 1, max: 9 }), (values, step) => {
        const whole = values.map((value) => JSON.stringify(value)).join("\n");
        const cut = whole.match(new RegExp(`[^]{1,${String(step)}}`, "g")) ?? [];
        const expected = values.map(({ Width, Height }) => ({ columns: Width, rows: Height }));
        assert.deepEqual(parse(...cut), expected);
      }),
    );
  });

  test("reads any text without throwing, however it is cut", () => {
    const chunk = fc.oneof(
      fc.string(),
      sides.map((value) => JSON.stringify(value)),
    );
    fc.assert(fc.property(fc.array(chunk), (chunks) => void parse(...chunks)));
  });
});

describe("ResizeQueue", () => {
  test("skips sizes that were not consumed in time, and returns the last one before its end", async () => {
    const queue = new ResizeQueue();
    queue.put({ columns: 1, rows: 1 });
    queue.put({ columns: 2, rows: 2 });
    queue.end();
    queue.put({ columns: 3, rows: 3 });
    const got = [];
    for await (const size of queue) got.push(size.columns);
    assert.deepEqual(got, [2]);
  });

  test("wakes its reader", async () => {
    const queue = new ResizeQueue();
    const reader = queue[Symbol.asyncIterator]();
    const first = reader.next();
    queue.put({ columns: 7, rows: 1 });
    assert.deepEqual((await first).value, { columns: 7, rows: 1 });
    const second = reader.next();
    queue.end();
    assert.equal((await second).done, true);
  });
});
