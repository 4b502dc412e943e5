import assert from "node:assert/strict";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { imageDirectory } from "../../../src/shim/host/image-directory.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

describe("imageDirectory()", () => {
  const database = "io.containerd.snapshotter.v1.overlayfs/metadata.db";
  for (const [what, imageStore, written, expected] of [
    ["with a graph driver the engine's data root", "graph", ["system", "own"], "docker"],
    ["the engine's own containerd", "containerd", ["own"], "docker/containerd/daemon"],
    ["the host's containerd", "containerd", ["system"], "system"],
    ["of two the one that was written to last", "containerd", ["own", "system"], "system"],
    [
      "of two the one that was written to last, the other way round",
      "containerd",
      ["system", "own"],
      "docker/containerd/daemon",
    ],
    ["the data root where nothing is found", "containerd", [], "docker"],
  ] as const) {
    test(what, async () => {
      await using directory = await temporaryDirectory();
      const roots = {
        own: join(directory.path, "docker/containerd/daemon"),
        system: join(directory.path, "system"),
      };
      for (const [index, name] of written.entries()) {
        const path = join(roots[name], database);
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, "");
        await utimes(path, 1000 + index, 1000 + index);
      }
      const facts = { dockerRootDir: join(directory.path, "docker"), imageStore, storageDriver: "overlayfs" };
      assert.equal(await imageDirectory(facts, roots.system), join(directory.path, expected));
    });
  }
});
