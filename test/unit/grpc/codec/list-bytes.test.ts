import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import {
  concatenateList,
  encodeEach,
  inMessages,
  keepBytes,
  keepList,
} from "../../../../src/shim/grpc/codec/list-bytes.js";

interface Item {
  readonly bytes: number;
}

const encode = ({ bytes }: Item): Buffer => Buffer.alloc(bytes, 7);
const megabyte = 1024 * 1024;

describe("keepBytes()", () => {
  test("encodes an object once, and another one with the same content again", () => {
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
  test("encodes each item before the next one is made", async () => {
    const steps: string[] = [];
    const items = async function* (): AsyncGenerator<Item> {
      for (const bytes of [3, 5]) {
        steps.push(`make ${bytes}`);
        await Promise.resolve();
        yield { bytes };
      }
    };
    const encoded = await encodeEach(items(), (item) => {
      steps.push(`encode ${item.bytes}`);
      return encode(item);
    });
    assert.deepEqual(
      encoded,
      [3, 5].map((bytes) => encode({ bytes })),
    );
    assert.deepEqual(steps, ["make 3", "encode 3", "make 5", "encode 5"]);
  });

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
  for (const [sizes, groups] of [
    [[], []],
    [[1, 200], [[1, 200]]],
    [
      [2 * megabyte, megabyte, 2 * megabyte],
      [[2 * megabyte, megabyte], [2 * megabyte]],
    ],
    [
      [5 * megabyte, 1],
      [[5 * megabyte], [1]],
    ],
  ] as const) {
    test(`divides items of ${JSON.stringify(sizes)} bytes before a message is too large`, () => {
      const expected = groups.map((group) => concatenateList(group.map((bytes) => encode({ bytes }))));
      const messages = [...inMessages(sizes.map((bytes) => encode({ bytes })))];
      assert.deepEqual(
        messages.map(({ length }) => length),
        expected.map(({ length }) => length),
      );
      assert.ok(messages.every((bytes, index) => bytes.equals(expected[index] ?? Buffer.alloc(0))));
    });
  }

  for (const [count, sizes] of [
    [1000, [1000]],
    [2001, [1000, 1000, 1]],
  ] as const) {
    test(`divides ${count} items into ${sizes.length} messages, each once and in order`, () => {
      const items = Array.from({ length: count }, (_, index) => Buffer.from(String(index)));
      const messages = [...inMessages(items)];
      assert.equal(messages.length, sizes.length);
      let start = 0;
      for (const [index, size] of sizes.entries()) {
        assert.deepEqual(messages[index], concatenateList(items.slice(start, start + size)));
        start += size;
      }
    });
  }
});
