import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import {
  entryLimitBytes,
  type Essentials,
  JsonTrimmer,
  memberLimitBytes,
  readList,
} from "../../../../src/shim/engine/http/json-stream.js";
import { pieces, streamOf } from "../pieces.js";
import { unicodeText } from "../../../support/unicode-text.js";

const essentials: Essentials = {
  Id: true,
  State: true,
  Config: { Labels: { type: true, 'odd "key" é': true }, Image: true },
};

/** What is left of `json` when it arrives in pieces of these sizes. */
function trim(json: string, sizes: readonly number[], what = essentials): string | undefined {
  const trimmer = new JsonTrimmer(what);
  for (const piece of pieces(Buffer.from(json), sizes)) trimmer.push(piece);
  return trimmer.text;
}

/** The same by JSON.parse. */
function keep(value: unknown, what: true | Essentials): unknown {
  if (what === true || typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const members = Object.entries(value).filter(([key]) => Object.hasOwn(what, key));
  return Object.fromEntries(members.map(([key, member]) => [key, keep(member, what[key] ?? true)]));
}

const names = ["Id", "State", "Config", "Labels", "type", 'odd "key" é', "Image", "x\\", "__proto__"];
const keys = fc.constantFrom(...names);
const { value: anything } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    unicodeText({}),
    fc.constantFrom('"', "\\", '\\"', "}", "]", ",", ""),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom(true, false, null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(keys, tie("value"), { maxKeys: 6 }),
  ),
}));
const object = fc.dictionary(keys, anything, { maxKeys: 8 });
const sizes = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 10 });

describe("JsonTrimmer", () => {
  test("keeps what matters of any object, in whatever pieces it arrives", () => {
    fc.assert(
      fc.property(object, sizes, fc.constantFrom(0, 2), (value, cuts, indent) => {
        const text = trim(JSON.stringify(value, null, indent), cuts);
        assert.deepEqual(JSON.parse(text ?? ""), keep(JSON.parse(JSON.stringify(value)), essentials));
      }),
    );
  });

  test("an object that is cut short is none", () => {
    fc.assert(
      fc.property(object, sizes, fc.nat(), (value, cuts, at) => {
        const text = JSON.stringify(value);
        assert.equal(trim(text.slice(0, at % text.length), cuts), undefined);
      }),
    );
  });

  test("a member beyond the limit counts as null, and what follows it is kept", () => {
    const fits = "x".repeat(memberLimitBytes - 2);
    assert.equal(trim(JSON.stringify({ State: fits, Id: "a" }), [1000]), `{"State":"${fits}","Id":"a"}`);
    assert.equal(trim(JSON.stringify({ State: `${fits}x`, Id: "a" }), [1000]), '{"State":null,"Id":"a"}');
  });

  test("text in the place of a key or value cannot pass for another member", () => {
    const hostile = { other: '","Id":"faked', nested: { Id: "faked" }, list: [{ Id: "faked" }], Id: "real" };
    assert.equal(trim(JSON.stringify(hostile), [3]), '{"Id":"real"}');
  });

  for (const text of [
    "",
    "{",
    '{"a"',
    "{]",
    "{]]]]",
    "}{",
    '{"Id"}',
    '{"Id":}',
    "{,,",
    "{:",
    "[}",
    "{1:2}",
  ]) {
    test(`ends whatever arrives: ${text}`, () => {
      assert.throws(() => JSON.parse(trim(text, [1]) ?? ""));
    });
  }

  test("ends at the end of the object", () => assert.equal(trim("{}x", [1]), "{}"));
});

async function read(
  text: string,
  sizes: readonly number[] = [1000],
  onProgress?: () => void,
): Promise<readonly unknown[]> {
  const options = {
    action: "list things",
    essentials: { Id: true },
    convert: (entry: unknown) => entry,
  } as const;
  return readList(streamOf(Buffer.from(text), sizes), { ...options, onProgress });
}

describe("readList()", () => {
  test("answers what JSON.parse answers, in whatever pieces the list arrives", async () => {
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

  test("null, as which Go writes a nil slice, has no entries", async () => {
    assert.deepEqual(await read("null\n"), []);
  });

  for (const text of ["", "[", '[{"Id":1}', '[{"Id":1},', "{}\n", '{"message":"x"}', "[]x", "[}", '["']) {
    test(`what is no whole list is an error and no shorter list: ${text}`, async () => {
      await assert.rejects(read(text, [1]), { kind: "unknown" });
    });
  }

  test("an entry that is no JSON is an error, also a large one", async () => {
    const large = "y".repeat(entryLimitBytes);
    for (const entry of ["{x}", `{"Id":x,"y":"${large}"}`, `{${large}}`])
      await assert.rejects(read(`[${entry}]`), { kind: "unknown" });
  });

  test("tells of each part that arrives", async () => {
    let parts = 0;
    await read("[1,2,3]", [2], () => (parts += 1));
    assert.equal(parts, 4);
  });
});
