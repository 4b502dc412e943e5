import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";

const manifest = JSON.parse(readFileSync(join(repositoryRoot, "package.json"), "utf8")) as {
  readonly dependencies?: object;
  readonly bin: Readonly<Record<string, string>>;
  readonly files: readonly string[];
};

test("the package brings no other packages along: the build has their code", () => {
  assert.deepEqual(manifest.dependencies ?? {}, {});
});

test("the package has its program, and the files that the program reads beside it", () => {
  assert.deepEqual(manifest.bin, { dockershim: "dist/launch.cjs" });
  for (const needed of ["bin", "dist", "pause/bin", "proto"])
    assert.ok(manifest.files.includes(needed), needed);
});
