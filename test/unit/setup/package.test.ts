import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";

const manifest = JSON.parse(readFileSync(join(repositoryRoot, "package.json"), "utf8")) as {
  readonly dependencies?: object;
  readonly bin: Readonly<Record<string, string>>;
  readonly files: readonly string[];
  readonly engines: { readonly node: string };
};

test("the package brings no other packages along: the build has their code", () =>
  assert.deepEqual(manifest.dependencies ?? {}, {}));

test("the package has its program, and the files that the program reads beside it", () => {
  assert.deepEqual(manifest.bin, { dockershim: "dist/launch.cjs" });
  for (const needed of ["bin", "dist", "native/bin"]) assert.ok(manifest.files.includes(needed), needed);
});

test("a build of the image gets what it copies and builds from", () => {
  const text = (path: string) => readFileSync(join(repositoryRoot, path), "utf8");
  const admitted = [...text(".dockerignore").matchAll(/^!(.+)$/gm)].map(([, name]) => name);
  const copied = [...text("scripts/image/copy-build").matchAll(/^cp (?:-r )?(.*) "\$1/gm)].flatMap(
    ([, words = ""]) => words.split(" ").map((word) => word.replace(/\/.*/, "")),
  );
  const needed = new Set([...copied, "src", "checkpoints", "package-lock.json", "tsconfig.json"]);
  // The build makes it.
  needed.delete("dist");
  assert.ok(copied.includes("native"));
  for (const name of needed) assert.ok(admitted.includes(name), name);
  for (const name of admitted) assert.ok(existsSync(join(repositoryRoot, name ?? "")), name);
});

test("the supported lines of Node.js are the same for npm, CI, editors and readers", () => {
  const text = (path: string) => readFileSync(join(repositoryRoot, path), "utf8");
  const table = /\n## Supported versions of Node\.js\n([^#]*)/.exec(text("CONTRIBUTING.md"))?.[1] ?? "";
  const rows = [...table.matchAll(/^\| (\d+) \|[^|]*\| (.*) \|$/gm)];
  const lines = rows.map(([, line = ""]) => line);
  const recommended = rows.filter(([, , here = ""]) => here.includes("recommended")).map(([, line]) => line);
  assert.ok(lines.length > 1);
  assert.equal(`>=${lines[0] ?? ""}.9`, manifest.engines.node);
  assert.deepEqual([text(".nvmrc").trim()], recommended);
  assert.match(text(".github/workflows/ci.yml"), new RegExp(`node: \\[${lines.join(", ")}\\]`));
  assert.match(text(".devcontainer/devcontainer.json"), new RegExp(`"version": "${recommended.join()}"`));
});
