import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { layerDirectories } from "../../../src/shim/host/layer-directories.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

/** Layers, the top one first; a path that ends in a slash is a directory, one with an arrow a link. */
async function layersIn(root: string, layers: readonly (readonly string[])[]): Promise<readonly string[]> {
  return Promise.all(
    layers.map(async (paths, index) => {
      const layer = join(root, `id${String(index)}`, "diff");
      await mkdir(layer, { recursive: true });
      for (const path of paths) {
        const [name = "", target] = path.split(" -> ");
        await mkdir(name.endsWith("/") ? join(layer, name) : dirname(join(layer, name)), { recursive: true });
        if (target !== undefined) await symlink(target, join(layer, name));
        else if (!name.endsWith("/")) await writeFile(join(layer, name), "");
      }
      return layer;
    }),
  );
}

describe("layerDirectories()", () => {
  for (const [what, layers, path, expected] of [
    ["all layers make up the root", [["a"], ["b"]], "", [0, 1]],
    ["only those that have the directory", [["a"], ["d/e/"], [], ["d/e/x"]], "d/e", [1, 3]],
    ["nothing below a file of that name", [["d/e/"], ["d/e"], ["d/e/"]], "d/e", [0]],
    ["nothing below a file in the place of a parent", [["d/e/"], ["d"], ["d/e/"]], "d/e", [0]],
    ["links are not followed", [["d/e/"], ["d -> f", "f/e/"], ["d/e/"]], "d/e", [0]],
    ["none has it", [["a"], ["d/"]], "d/e", []],
  ] as const) {
    test(what, async () => {
      await using directory = await temporaryDirectory();
      const directories = await layersIn(directory.path, layers);
      const found = await layerDirectories(directories, path);
      assert.deepEqual(
        found?.map((one) => one.path),
        expected.map((index) => join(directories[index] ?? "", path)),
      );
    });
  }

  test("names layers for short where the graph driver does", async () => {
    await using directory = await temporaryDirectory();
    const layers = await layersIn(directory.path, [["d/"], ["d/"], ["d/"]]);
    await writeFile(join(directory.path, "id0", "link"), "ABC123");
    await writeFile(join(directory.path, "id1", "link"), "../../etc");
    const found = await layerDirectories(layers, "d");
    assert.deepEqual(
      found?.map((one) => one.shortPath),
      [join(directory.path, "l", "ABC123", "d"), undefined, undefined],
    );
  });

  test("a layer that is not there is out of reach", async () => {
    await using directory = await temporaryDirectory();
    const layers = await layersIn(directory.path, [["d/"]]);
    assert.equal(await layerDirectories([...layers, join(directory.path, "absent", "diff")], ""), undefined);
  });
});
