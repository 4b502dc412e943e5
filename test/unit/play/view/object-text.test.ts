import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "yaml";
import { jsonText, yamlText } from "../../../../src/play/view/object-text.js";

/** CSI as one character, the end of a line of text from right to left, a character of two units. */
const hostile = { "a\u009Bb": "x\u009B31m \u202Ey\u007F \u{E0041}\u2028 \u001B[2J\nno" };

test("jsonText() and yamlText() have nothing in them that a terminal acts on, and the same data", async () => {
  const json = jsonText({ hostile });
  const yaml = await yamlText({ hostile });
  for (const text of [json, yaml]) assert.doesNotMatch(text, /[\p{Cf}\u2028\u2029]|(?!\n)\p{Cc}/u);
  assert.deepEqual(JSON.parse(json), { hostile });
  assert.deepEqual(parse(yaml), { hostile });
});

test("yamlText() quotes what YAML 1.1 takes for something else than text", async () => {
  for (const text of ["no", "Yes", "on", "y", "012", "1:30", "2001-01-01", "1_000"])
    assert.equal(await yamlText({ a: text }), `a: "${text}"\n`);
  assert.deepEqual(parse(await yamlText({ no: 1 }), { version: "1.1" }), { no: 1 });
});

test("yamlText() has no anchors", async () => {
  const same = { c: 1 };
  assert.equal(await yamlText({ a: same, b: same }), "a:\n  c: 1\nb:\n  c: 1\n");
});
