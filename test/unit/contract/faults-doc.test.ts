import assert from "node:assert/strict";
import { test } from "node:test";
import { documentWithTable } from "../../support/fault-table-doc.js";

test("docs/faults.md has the fault table of the tests (node --import tsx test/support/fault-table-doc.ts)", async () => {
  const { present, wanted } = await documentWithTable();
  assert.equal(present, wanted);
});
