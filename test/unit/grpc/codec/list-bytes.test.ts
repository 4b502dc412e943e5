import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import {
  keepBytes,
  withItemBytes,
  withKeptList,
  withStreamedItemBytes,
} from "../../../../src/shim/grpc/codec/list-bytes.js";
import { concatenateList } from "../../../../src/shim/grpc/codec/proto.js";
import { recordingLog } from "../../../fakes/recording-log.js";

interface Item {
  readonly bytes: number;
}

const call = { rpc: "Test", signal: new AbortController().signal, log: recordingLog() };
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

describe("withKeptList()", () => {
  /** A list RPC whose items the test changes; `all` is the whole list, `some` one with a filter. */
  function list(items: Item[]) {
    const handler = withKeptList(
      ({ filter }: { readonly filter: number | null }) =>
        Promise.resolve(items.filter(({ bytes }) => filter === null || bytes === filter)),
      (answer) => answer,
      encode,
    );
    return {
      all: () => handler({ filter: null }, call),
      some: (bytes: number) => handler({ filter: bytes }, call),
    };
  }

  test("gives the same bytes again until an item is replaced, added or gone", async () => {
    const items = [{ bytes: 3 }, { bytes: 5 }];
    const { all } = list(items);
    const expect = async (changed: boolean, before: Buffer): Promise<Buffer> => {
      const now = await all();
      assert.equal(now === before, !changed);
      assert.deepEqual(now, concatenateList(items.map(encode)));
      return now;
    };
    let bytes = await expect(true, Buffer.alloc(0));
    bytes = await expect(false, bytes);
    items[1] = { bytes: 5 };
    bytes = await expect(true, bytes);
    items.push({ bytes: 9 });
    bytes = await expect(true, bytes);
    items.shift();
    bytes = await expect(true, bytes);
    items.splice(0);
    bytes = await expect(true, bytes);
    await expect(false, bytes);
  });

  test("a list with a filter neither gets nor replaces the whole one", async () => {
    const { all, some } = list([{ bytes: 3 }, { bytes: 5 }]);
    const whole = await all();
    assert.deepEqual(await some(5), concatenateList([encode({ bytes: 5 })]));
    assert.equal(await all(), whole);
  });
});

describe("withItemBytes()", () => {
  test("encodes each item before the next one is made", async () => {
    const steps: string[] = [];
    const items = async function* (): AsyncGenerator<Item> {
      for (const bytes of [3, 5]) {
        steps.push(`make ${String(bytes)}`);
        await Promise.resolve();
        yield { bytes };
      }
    };
    const handler = withItemBytes(items, (item) => {
      steps.push(`encode ${String(item.bytes)}`);
      return encode(item);
    });
    assert.deepEqual(await handler(null, call), concatenateList([3, 5].map((bytes) => encode({ bytes }))));
    assert.deepEqual(steps, ["make 3", "encode 3", "make 5", "encode 5"]);
  });

  test("fails with the list", async () => {
    const items = async function* (): AsyncGenerator<Item> {
      yield await Promise.resolve({ bytes: 3 });
      throw new Error("no more");
    };
    await assert.rejects(withItemBytes(items, encode)(null, call), /no more/);
  });
});

describe("withStreamedItemBytes()", () => {
  /** What a client receives of one message with items of these sizes. */
  async function sentFor(sizes: readonly number[]): Promise<readonly Buffer[]> {
    const items = sizes.map((bytes) => ({ bytes }));
    const sent: Buffer[] = [];
    const handler = withStreamedItemBytes(
      (_request: null, _call, send: (message: { readonly items: readonly Item[] }) => Promise<void>) =>
        send({ items }),
      (message) => message.items,
      encode,
    );
    await handler(null, call, (bytes) => {
      sent.push(bytes);
      return Promise.resolve();
    });
    return sent;
  }

  test("sends small items together, as the unary call does", async () => {
    const items = [{ bytes: 1 }, { bytes: 200 }];
    const unary = withItemBytes(() => Readable.from(items), encode);
    assert.deepEqual(await sentFor([1, 200]), [await unary(null, call)]);
  });

  for (const [sizes, groups] of [
    [[], []],
    [
      [2 * megabyte, megabyte, 2 * megabyte],
      [[2 * megabyte, megabyte], [2 * megabyte]],
    ],
    [
      [5 * megabyte, 1],
      [[5 * megabyte], [1]],
    ],
  ] as const) {
    test(`divides items of ${JSON.stringify(sizes)} bytes before a message is too large`, async () => {
      const expected = groups.map((group) => concatenateList(group.map((bytes) => encode({ bytes }))));
      const sent = await sentFor(sizes);
      assert.deepEqual(
        sent.map(({ length }) => length),
        expected.map(({ length }) => length),
      );
      assert.ok(sent.every((bytes, index) => bytes.equals(expected[index] ?? Buffer.alloc(0))));
    });
  }
});
