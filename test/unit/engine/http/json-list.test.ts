import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isKind } from "../../../../src/shim/lib/errors.js";
import { entryLimitBytes, readList } from "../../../../src/shim/engine/http/json-list.js";

async function* pieces(text: string, sizes: readonly number[]): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let start = 0, index = 0; start < bytes.length; index += 1) {
    const size = sizes[index % sizes.length] ?? 1;
    await Promise.resolve();
    yield bytes.subarray(start, start + size);
    start += size;
  }
}

async function read(text: string, sizes: readonly number[] = [1000]): Promise<readonly unknown[]> {
  const essentials = { Id: true } as const;
  return readList(pieces(text, sizes), { action: "list things", essentials, convert: (entry) => entry });
}

describe("readList()", () => {
  test("answers what JSON.parse answers, in whatever pieces the list arrives", async () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), sizes, fc.constantFrom(0, 1), async (list, cuts, indent) => {
        const text = `${JSON.stringify(list, null, indent)}\n`;
        assert.deepEqual(await read(text, cuts), JSON.parse(text));
      }),
    );
  });

  test("an entry beyond the limit is reduced to what matters, and no other one is", async () => {
    const entry = (id: string, size: number): object => ({ Id: id, Labels: { x: "x".repeat(size) } });
    const fixed = JSON.stringify(entry("1", 0)).length;
    const list = [entry("1", 1), entry("2", entryLimitBytes), entry("3", entryLimitBytes - fixed)];
    assert.deepEqual(await read(JSON.stringify(list)), [list[0], { Id: "2" }, list[2]]);
  });

  test("null, as Go writes a list that was never made, has no entries", async () => {
    assert.deepEqual(await read("null\n"), []);
  });

  for (const text of ["", "[", '[{"Id":1}', '[{"Id":1},', "{}\n", '{"message":"x"}', "[]x", "[}", '["']) {
    test(`what is no whole list is an error and no shorter list: ${text}`, async () => {
      await assert.rejects(read(text, [1]), (error) => isKind(error, "unknown"));
    });
  }

  test("an entry that is no JSON is an error, also a large one", async () => {
    for (const entry of [
      "{x}",
      `{"Id":x,"y":"${"y".repeat(entryLimitBytes)}"}`,
      `{${"y".repeat(entryLimitBytes)}}`,
    ])
      await assert.rejects(read(`[${entry}]`), (error) => isKind(error, "unknown"));
  });

  test("tells of each part that arrives", async () => {
    let parts = 0;
    await readList(pieces("[1,2,3]", [2]), {
      ...{ action: "list things", essentials: {}, convert: (entry) => entry },
      onProgress: () => (parts += 1),
    });
    assert.equal(parts, 4);
  });
});
