/** Each link of a document leads to a file of this repository, and to a heading of it. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { documents } from "../../support/documents.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Links and headings are what they are outside of code alone. */
function proseOf(text: string): string {
  return text
    .replaceAll(/^( *)```[\s\S]*?^\1```/gm, "")
    .replaceAll(/`[^`\n]*`/g, (code) => code.replaceAll(/[[\]()]/g, ""));
}

/** The anchors of headings, as GitHub makes them. */
function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of proseOf(text).matchAll(/^#{1,6} (.+)$/gm)) {
    const anchor = heading
      .trim()
      .toLowerCase()
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-");
    let free = anchor;
    for (let count = 1; anchors.has(free); count += 1) free = `${anchor}-${String(count)}`;
    anchors.add(free);
  }
  return anchors;
}

for (const document of documents()) {
  test(`the links of ${document} lead to files and headings that exist`, () => {
    const wrong: string[] = [];
    for (const [, target = ""] of proseOf(readFileSync(join(root, document), "utf8")).matchAll(
      /\]\(([^)\s]+)\)/g,
    )) {
      if (/^[a-z]+:/.test(target)) continue;
      const [path = "", anchor] = target.split("#");
      const file = path === "" ? join(root, document) : join(root, dirname(document), path);
      if (!existsSync(file)) wrong.push(`${target}: no such file`);
      else if (relative(root, file).startsWith("..")) wrong.push(`${target}: outside of the repository`);
      else if (anchor !== undefined && !anchorsOf(readFileSync(file, "utf8")).has(anchor))
        wrong.push(`${target}: no such heading`);
    }
    assert.deepEqual(wrong, []);
  });
}

test("docs/README.md names each page", () => {
  const index = readFileSync(join(root, "docs/README.md"), "utf8");
  const named = new Set([...index.matchAll(/\]\(([^)#]+)\)/g)].map(([, path = ""]) => join("docs", path)));
  const pages = documents().filter((path) => /^docs\/(?!decisions\/\d|README)/.test(path));
  const found = pages.filter((path) => !named.has(path));
  assert.deepEqual(found, []);
});
