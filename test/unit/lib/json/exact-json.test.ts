import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ExactNumber,
  formatJson,
  integerOf,
  JsonSyntaxError,
  parseJson,
} from "../../../../src/lib/json/exact-json.js";

describe("parseJson()", () => {
  test("reads every kind of value as JSON.parse does", () => {
    const text =
      '[null,true,0,-12.5,"a\\n\\u00e4\\"\\\\",[],{},{"a":[1,{"b":null}],"c":{"d":false}},{"":""}]';
    assert.deepEqual(parseJson(text), JSON.parse(text));
  });

  for (const number of ["12345678901234567", "-98765432109876543210", "1.50", "1e400", "1E5", "0.1000"]) {
    test(`keeps the number ${number} as it was written`, () => {
      const value = parseJson(`{"a": [${number}]}`);
      assert.equal(formatJson(value), `{"a":[${number}]}`);
    });
  }

  test("takes the last of two equal keys, and reports the key with its object", () => {
    const reported: unknown[] = [];
    const onRepeatedKey = (object: object, key: string): void => void reported.push([object, key]);
    const value = parseJson('{"a":1,"a":2,"b":{"c":1}}', { onRepeatedKey });
    assert.deepEqual(value, { a: 2, b: { c: 1 } });
    assert.deepEqual(reported, [[value, "a"]]);
  });

  test("reads a string of 16 MiB", () => {
    const text = "x".repeat(16 * 1024 * 1024);
    assert.equal(parseJson(JSON.stringify(text)), text);
  });

  test("keeps __proto__ as an ordinary key", () => {
    const value = parseJson('{"__proto__":{"polluted":true}}');
    assert.equal(formatJson(value), '{"__proto__":{"polluted":true}}');
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });

  const broken: readonly (readonly [string, string, number, number, RegExp])[] = [
    ["a comma before the end", '{\n  "a": 1,\n}', 3, 1, /expected a key in quotes, found "}"/],
    ["a missing comma", '{\n "a": 1\n "b": 2}', 3, 2, /expected "," or "}", found "\\""/],
    ["a cut text", '{"a": [1, 2', 1, 12, /expected "," or "\]", found the end/],
    ["a comment", "// x\n{}", 1, 1, /expected a value, found "\/"/],
    ["two values", "{} {}", 1, 4, /unexpected "{" after the value/],
    ["single quotes", "{'a': 1}", 1, 2, /expected a key in quotes/],
    ["a line break in a string", '{"a": "x\ny"}', 1, 7, /broken string/],
    ["a bare word", '{"a": yes}', 1, 7, /expected a value, found "y"/],
    ["a leading zero", "[01]", 1, 3, /expected "," or "\]", found "1"/],
    ["nothing", "", 1, 1, /expected a value, found the end/],
    ["a byte order mark", "\ufeff{}", 1, 1, /expected a value/],
  ];
  for (const [what, text, line, column, reason] of broken) {
    test(`says where the fault is for ${what}`, () => {
      assert.throws(
        () => parseJson(text),
        (error: unknown) => {
          assert.ok(error instanceof JsonSyntaxError);
          assert.match(error.reason, reason);
          assert.deepEqual([error.line, error.column], [line, column]);
          return true;
        },
      );
    });
  }

  test("refuses a text that would exhaust the stack", () => {
    assert.throws(() => parseJson("[".repeat(100_000)), /nested more than 200 levels deep/);
  });
});

test("integerOf() takes an integer in any notation and nothing else", () => {
  const read = [2, new ExactNumber("2.0"), 2.5, "2", null, undefined].map(integerOf);
  assert.deepEqual(read, [2, 2, ...Array<undefined>(4).fill(undefined)]);
});
