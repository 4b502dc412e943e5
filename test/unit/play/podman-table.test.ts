import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { sections } from "../../support/podman-fields.js";
import { outcomeOf, renderPodmanTable } from "../../support/podman-table.js";

test("docs/play/play-podman.md is what scripts/generate-podman-table.mjs writes", async () => {
  const text = await readFile(new URL("../../../docs/play/play-podman.md", import.meta.url), "utf8");
  assert.equal(text, await renderPodmanTable());
});

test("play honours or passes over every field that podman supports, and refuses none without a reason", async () => {
  for (const section of sections) {
    for (const row of section.rows) {
      const { play, reason } = await outcomeOf(section, row);
      assert.ok(play === "yes" || reason !== "", row[0]);
      if (row[1].startsWith("yes")) assert.notEqual(play, "refused", row[0]);
    }
  }
});
