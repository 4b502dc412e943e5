/** Documents name files of this repository: each path exists, so that a move of a file is followed. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { documents } from "../../support/documents.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));
/** They name files of before, and of other repositories. */
const others = new Set(["CHANGELOG.md", "play-workloads.md"]);

/** `a/b.ts`, `a/b/`, `b.test.ts`; not absolute paths, placeholders in capitals, or files of a node. */
const pathForm = /`((?:[\w.-]+\/)*(?:[\w-]+\.(?:ts|mjs|c|h|proto|yaml)|[\w.-]+\/))`/g;
/** Directories that a build or the program creates. */
const made =
  /^(dist|packages|programs|node_modules|\.cache|bin|play|quarantine|logs|pods|containers|sandbox|checkpoint)\//;

for (const document of documents().filter((path) => !others.has(basename(path)))) {
  test(`${document} names files that exist`, () => {
    const text = readFileSync(join(root, document), "utf8");
    const paths = [...text.matchAll(pathForm)].map(([, path = ""]) => path);
    const places = [
      ".",
      dirname(document),
      "src/shim",
      "src",
      "src/network",
      "test/unit",
      "test/integration",
    ];
    const missing = paths.filter(
      (path) =>
        path.includes("/") &&
        !path.includes("NOUN") &&
        !made.test(path) &&
        !places.some((place) => existsSync(join(root, place, path))),
    );
    assert.deepEqual(missing, []);
  });
}

test("an installation by hand copies what the package has", () => {
  const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly files: readonly string[];
  };
  const needed = files.filter((name) => !name.startsWith("!")).map((name) => name.split("/")[0] ?? "");
  const wanted = [...new Set([...needed, "package.json"])].toSorted();
  const document = readFileSync(join(root, "docs/run/install.md"), "utf8");
  const copied = [...document.matchAll(/ cp -r (.*) \/opt\/dockershim/g)];
  assert.ok(copied.length > 0);
  for (const [, names = ""] of copied) assert.deepEqual(names.split(" ").toSorted(), wanted);
});
