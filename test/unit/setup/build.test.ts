import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, afterEach, describe, test } from "node:test";
import { isBuilt, sourceFingerprint } from "../../../scripts/setup/build.mjs";

describe("isBuilt()", () => {
  let root = "";
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "dockershim-build-"));
    mkdirSync(join(root, "src", "main"), { recursive: true });
    mkdirSync(join(root, "dist"));
    writeFileSync(join(root, "src", "main", "main.ts"), "export {};\n");
    writeFileSync(join(root, "src", "other.ts"), "export {};\n");
    writeFileSync(join(root, "dist", ".build-stamp"), sourceFingerprint(root));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  test("holds when only times changed", () => {
    utimesSync(join(root, "src", "main", "main.ts"), new Date(), new Date());
    assert.equal(isBuilt(root), true);
  });

  const changes: Record<string, () => void> = {
    "a source changed": () => writeFileSync(join(root, "src", "main", "main.ts"), "export const a = 1;\n"),
    "a source was deleted": () => rmSync(join(root, "src", "other.ts")),
    "a source came": () => writeFileSync(join(root, "src", "new.ts"), ""),
    "the compiler's settings changed": () => writeFileSync(join(root, "tsconfig.json"), "{}"),
    "dist is gone": () => rmSync(join(root, "dist"), { recursive: true }),
  };
  for (const [name, change] of Object.entries(changes))
    test(`does not hold when ${name}`, () => {
      change();
      assert.equal(isBuilt(root), false);
    });
});
