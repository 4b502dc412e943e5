import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import fc from "fast-check";
import {
  concatenateList,
  encodeEach,
  inMessages,
  keepBytes,
  keepList,
} from "../../../../src/shim/grpc/codec/list-bytes.js";
import { api } from "../test-server.js";

interface Item {
  readonly bytes: number;
}

const encode = ({ bytes }: Item): Buffer => Buffer.alloc(bytes, 7);
const megabyte = 1024 * 1024;

test("concatenateList() is the encoding of a list of these items", () => {
  const list = api.methods.find(({ path }) => path === "/runtime.v1.RuntimeService/ListContainers");
  const encodeList = (containers: object[]): Buffer => Buffer.from(list!.encodeResponse({ containers }));
  const container = fc.record({ id: fc.string({ maxLength: 400 }), image_ref: fc.string() });
  fc.assert(
    fc.property(fc.array(container), (containers) => {
      const bytes = concatenateList(containers.map((item) => api.encodeItem.container(item)));
      assert.deepEqual(bytes, encodeList(containers));
    }),
  );
  const large = { id: "x".repeat(3_000_000) };
  assert.deepEqual(concatenateList([api.encodeItem.container(large)]), encodeList([large]));
});

test("keepBytes() encodes an object once, and another one with the same content again", () => {
  let encoded = 0;
  const kept = keepBytes((item: Item) => {
    encoded += 1;
    return encode(item);
  });
  const item = { bytes: 3 };
  assert.equal(kept(item), kept(item));
  assert.equal(encoded, 1);
  kept({ bytes: 3 });
  assert.equal(encoded, 2);
});

test("keepList() gives the same bytes again until an item is replaced, added or gone", () => {
  const items = [{ bytes: 3 }, { bytes: 5 }];
  const encodeList = keepList(encode);
  const expect = (changed: boolean, before: Buffer): Buffer => {
    const now = encodeList([...items]);
    assert.equal(now === before, !changed);
    assert.deepEqual(now, concatenateList(items.map(encode)));
    return now;
  };
  let bytes = expect(true, Buffer.alloc(0));
  bytes = expect(false, bytes);
  items[1] = { bytes: 5 };
  bytes = expect(true, bytes);
  items.push({ bytes: 9 });
  bytes = expect(true, bytes);
  items.shift();
  bytes = expect(true, bytes);
  items.splice(0);
  bytes = expect(true, bytes);
  expect(false, bytes);
});

describe("encodeEach()", () => {
  test("fails with the list", async () => {
    const items = async function* (): AsyncGenerator<Item> {
      yield await Promise.resolve({ bytes: 3 });
      throw new Error("no more");
    };
    await assert.rejects(encodeEach(items(), encode), /no more/);
    assert.deepEqual(await encodeEach(Readable.from([]), encode), []);
  });
});

describe("inMessages()", () => {
  const many = Array<number>(2001).fill(4);
  const cases: readonly (readonly [name: string, sizes: readonly number[], counts: readonly number[]])[] = [
    ["no items", [], []],
    ["small items", [1, 200], [2]],
    ["items that are too large together", [2 * megabyte, megabyte, 2 * megabyte], [2, 1]],
    ["an item that is too large alone", [5 * megabyte, 1], [1, 1]],
    ["1000 items", many.slice(0, 1000), [1000]],
    ["2001 items", many, [1000, 1000, 1]],
  ];
  for (const [name, sizes, counts] of cases) {
    test(`divides ${name} into messages of ${JSON.stringify(counts)} items, each once and in order`, () => {
      const items = sizes.map((bytes, index) => Buffer.alloc(bytes, index + 1));
      let start = 0;
      const groups = counts.map((count) => items.slice(start, (start += count)));
      assert.equal(start, items.length);
      const messages = [...inMessages(items)];
      assert.equal(messages.length, groups.length);
      assert.ok(messages.every((bytes, index) => bytes.equals(concatenateList(groups[index]!))));
    });
  }
});
