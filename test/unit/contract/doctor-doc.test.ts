import assert from "node:assert/strict";
import { test } from "node:test";
import { documentWithFindings } from "../../support/doctor-doc.js";

test("docs/run/doctor.md has the findings of the tests (node --import tsx test/support/doctor-doc.ts)", async () => {
  const { present, wanted } = await documentWithFindings();
  assert.equal(present, wanted);
});
