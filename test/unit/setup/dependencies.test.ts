import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { nodeVersionProblem, outdatedDependencies } from "../../../scripts/setup/dependencies.mjs";

const locked = {
  "": { version: "0.1.0" },
  "node_modules/one": { version: "1.0.0", integrity: "sha512-one" },
  "node_modules/elsewhere": { version: "1.0.0", integrity: "sha512-else", optional: true },
};
const { "": _root, "node_modules/elsewhere": _optional, ...installed } = locked;

function checkout(t: TestContext, hidden: object | undefined): string {
  const root = mkdtempSync(join(tmpdir(), "dockershim-dependencies-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  writeFileSync(join(root, "package-lock.json"), JSON.stringify({ packages: locked }));
  if (hidden !== undefined) {
    mkdirSync(join(root, "node_modules", "one"), { recursive: true });
    writeFileSync(join(root, "node_modules", ".package-lock.json"), JSON.stringify({ packages: hidden }));
  }
  return root;
}

describe("outdatedDependencies()", () => {
  test("accepts an installation of the locked versions, without other platforms' packages", (t) =>
    assert.equal(outdatedDependencies(checkout(t, installed)), undefined));

  test("notices that node_modules is missing or was not finished", (t) =>
    assert.match(outdatedDependencies(checkout(t, undefined)) ?? "", /missing or incomplete/));

  test("notices a version that the lock file changed", (t) => {
    const root = checkout(t, { "node_modules/one": { version: "0.9.0", integrity: "sha512-old" } });
    assert.match(outdatedDependencies(root) ?? "", /node_modules\/one/);
  });

  test("notices a package that is gone from the disk", (t) => {
    const root = checkout(t, installed);
    rmSync(join(root, "node_modules", "one"), { recursive: true });
    assert.match(outdatedDependencies(root) ?? "", /node_modules\/one/);
  });
});

test("nodeVersionProblem() names the version that is too old, and accepts 20.9 and later", () => {
  assert.match(nodeVersionProblem("18.20.1") ?? "", /18\.20\.1.*20\.9/);
  assert.match(nodeVersionProblem("20.8.1") ?? "", /20\.8\.1/);
  assert.equal(nodeVersionProblem("20.9.0"), undefined);
  assert.equal(nodeVersionProblem("24.1.0"), undefined);
});
