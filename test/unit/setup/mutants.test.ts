import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { runInNewContext } from "node:vm";
import { instrument, locate, mutationsOf, relocated } from "../../../scripts/mutants/mutations.mjs";

const files = (text: string, file = "src/a/one.ts") =>
  mutationsOf(text).map((mutation) => ({ file, ...mutation }));
const replacements = (text: string) =>
  mutationsOf(text).map(({ original, replacement }) => `${original} → ${replacement}`);

describe("mutationsOf()", () => {
  const cases: [string, string[]][] = [
    ["a && !b;", ["a && !b → (a) || (!b)", "!b → b"]],
    ["f(a ?? 1);", ["f(a ?? 1) → undefined", "a ?? 1 → a", "1 → 1 + 1"]],
    ["if (a) b = true;", ["a → true", "a → false", "b = true → undefined", "true → false"]],
    ["const f = () => (a < 2 ? b : c);", ["(a < 2 ? b : c) → undefined", "a < 2 → true", "a < 2 → false"]],
    ["async () => { await f(); return g; };", ["await f() → undefined", "g → undefined"]],
  ];
  for (const [text, expected] of cases)
    test(`changes ${text}`, () => {
      const found = replacements(text);
      for (const one of expected) assert.ok(found.includes(one), `${one} is missing in ${found.join(", ")}`);
    });

  test("leaves types, imports, names and joined texts alone", () => {
    const text = `import { a } from "./1.js"; type T = 1 | true; interface I { 0: false } f("x" + "y", { 1: x });`;
    assert.deepEqual(replacements(text), ['f("x" + "y", { 1: x }) → undefined']);
  });
});

describe("instrument()", () => {
  test("makes a source in which the mutant that is on, and no other, takes effect", () => {
    const text = "[1 < 1, 3]";
    const mutants = mutationsOf(text)
      .filter(({ original }) => original !== "1")
      .map((mutation, id) => ({ ...mutation, id }));
    const valueWith = (on: number) =>
      // A text, because its arrays are none of this context.
      runInNewContext(`JSON.stringify(${instrument(text, mutants)})`, {
        $mutant: (id: number) => id === on,
      }) as unknown;
    assert.deepEqual([-1, 0, 1].map(valueWith), ["[false,3]", "[true,3]", "[false,4]"]);
  });
});

describe("locate()", () => {
  const [stored] = files("f(a);\nif (a === 1) g();\n").filter(({ original }) => original === "a === 1");
  assert.ok(stored);

  test("finds a mutation in its line, wherever that is now", () => {
    const moved = files("// new\nx();\n  if (a === 1) g();\n", "src/b/one.ts");
    const other = files("if (a === 1) g();\n", "src/b/two.ts");
    const found = locate(stored, [...other, ...moved]);
    assert.deepEqual([found?.file, found?.replacement], ["src/b/one.ts", stored.replacement]);
  });

  test("finds none when its line was rewritten", () =>
    assert.equal(locate(stored, files("if (a === 2) g();\n")), undefined));

  test("relocated() forgets the stored result, and says what is gone", () => {
    const killed = { ...stored, result: "killed", by: "a test" };
    const moved = relocated<typeof stored & { result?: string; by?: string }>(killed, [
      { ...stored, file: "src/b/one.ts" },
    ]);
    assert.deepEqual([moved.file, moved.result], ["src/b/one.ts", undefined]);
    assert.equal(relocated(killed, []).result, "gone");
  });
});
