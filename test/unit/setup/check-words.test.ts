import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { findings, replacedWords, wordsPattern, wordsWithin } from "../../../scripts/check-words.mjs";

test("replacedWords() reads the left column of the section's table, and of no other", () => {
  const row = (left: string, right: string) => `| ${left} | ${right} |`;
  const table = [
    row("not", "but"),
    row("---", "---"),
    row("gizmo, gizmos", "lock"),
    row("Odd little thing", "dialer"),
  ];
  const other = [row("a", "b"), row("---", "---"), row("c", "d")].join("\n");
  const text = `# T\n\n${other}\n\n## Words\n\n${table.join("\n")}\n\n## Commits\n\n${other}\n`;
  assert.deepEqual(replacedWords(text), ["gizmo", "gizmos", "odd little thing"]);
});

describe("findings()", () => {
  const words = ["gizmo", "odd little thing"];
  const found = (text: string, path = "src/a.ts") =>
    findings(path, text, wordsPattern(wordsWithin(words, path + text))).length;

  const identifiers =
    "Gizmo GIZMO gizmoOf sandboxGizmo sandboxGizmoOf SANDBOX_GIZMO a-gizmo-b oddLittleThing";
  const reported = [...identifiers.split(" "), "a gizmo.", "odd little thing", "ODD_LITTLE_THING"];
  for (const text of reported) test(`reports "${text}"`, () => assert.equal(found(text), 1));
  for (const text of ["agizmo", "gizmology", "gizmoid", "pregizmoOf", "odd little"])
    test(`does not report "${text}"`, () => assert.equal(found(text), 0));

  test("reports the name of a file", () => assert.equal(found("", "src/sandbox-gizmo.ts"), 1));

  test("reports long lines of Markdown, and long cells", () => {
    const line = "word ".repeat(30);
    assert.equal(found(line), 0);
    assert.equal(found(line, "docs/a.md"), 1);
    assert.equal(found(`| ${line} | ${line} |`, "docs/a.md"), 0);
    assert.equal(found(`| ${line.repeat(2)} | a |`, "docs/a.md"), 1);
  });
});
