/** Every RPC and every request field of the CRI is either acted upon, or the docs say why not. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { rpcs as table } from "../../../src/shim/cri/rpcs.js";
import { fieldReads } from "./field-reads.js";
import { allRpcs, fieldsOf, repository } from "./request-messages.js";

/** The cells of all table rows of a document, without code marks. */
function rows(document: string): readonly (readonly string[])[] {
  const text = readFileSync(join(repository, "docs/understand", document), "utf8");
  const lines = text.split("\n").filter((line) => line.startsWith("|") && !/^\|[ -]*\|/.test(line));
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.replaceAll("`", "").trim()),
  );
}

const built = new Set(Object.keys(table));

describe("the contract of the CRI", () => {
  const rpcs = allRpcs();
  const documented = new Map(
    rows("rpc-support.md").flatMap(([names = "", state = "", remark = ""]) =>
      names.split(", ").map((name) => [name.replace("²", ""), { state, remark }] as const),
    ),
  );

  for (const { name } of rpcs) {
    test(`${name} is built, or the docs say that it is not and why`, () => {
      const row = documented.get(name);
      assert.ok(row, `docs/understand/rpc-support.md has no row for ${name}`);
      if (built.has(name)) assert.match(row.state, /^(yes|partly)$/);
      else assert.ok(row.state === "not built yet" || (row.state === "no" && row.remark !== ""), row.state);
    });
  }

  test("nothing is built that the contract does not have", () => {
    const names = new Set(rpcs.map(({ name }) => name));
    const found = [...built].filter((name) => !names.has(name));
    assert.deepEqual(found, []);
  });

  test("each field of a request is read by the program, or excused in docs/understand/request-fields.md, not both", () => {
    const fields = fieldsOf(rpcs.filter(({ name }) => built.has(name)).map(({ request }) => request));
    assert.ok(fields.size > 150, String(fields.size));
    const reads = fieldReads();
    const excuses = rows("request-fields.md")
      .filter(([, reason = ""]) => reason !== "" && reason !== "reason")
      .map(([name = ""]) => name);
    const covers = (name: string, field: string): boolean =>
      name === field || (name.endsWith(".*") && field.startsWith(name.slice(0, -1)));
    const isExcused = (field: string): boolean => excuses.some((name) => covers(name, field));
    const all = [...fields.keys()];
    const pending = all.filter((field) => !reads.has(field) && !isExcused(field));
    assert.deepEqual(pending, [], "fields that no code reads and no row excuses");
    const both = all.filter((field) => reads.has(field) && isExcused(field));
    assert.deepEqual(both, [], "fields that are excused although code reads them");
    const idle = excuses.filter((name) => !all.some((field) => covers(name, field)));
    assert.deepEqual(idle, [], "rows for fields that the contract does not have");
  });
});
