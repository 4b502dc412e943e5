import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { renderFlagTable } from "../../../src/shim/config/flag-docs.js";

test("docs/run/flags.md is what scripts/generate-flags-doc.mjs writes", async () => {
  const text = await readFile(new URL("../../../docs/run/flags.md", import.meta.url), "utf8");
  assert.equal(text, renderFlagTable());
});
