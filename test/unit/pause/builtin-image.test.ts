import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { isKind } from "../../../src/shim/lib/errors.js";
import { builtinPauseImage, builtinPauseReference } from "../../../src/shim/pause/builtin-image.js";
import { portForwardArchive, portForwardPath } from "../../../src/shim/pause/programs.js";
import { contentOf, jsonOf, readTar } from "./read-archive.js";

// An engine that has the name is never given the image again, so these may change only together with the tag.
const configurations = [
  {
    reference: "dockershim.local/pause:2",
    architecture: "amd64",
    path: "9780319056ecaf8cb1f58c807f3552d48000b8a84fb528193c0f697e31e645b6",
  },
  {
    reference: "dockershim.local/pause:2",
    architecture: "arm64",
    path: "4c007e0fe83390b22ba463c737b7ea145ddbe80ac22af1ce6950b8ea9760260c",
  },
];

describe("builtinPauseImage()", () => {
  for (const { reference, architecture, path } of configurations) {
    test(`has for ${architecture} the content that its name stands for`, async () => {
      const image = await builtinPauseImage(architecture);
      assert.equal(image.reference, reference);
      assert.equal(builtinPauseReference, reference);
      const members = await readTar(image.archive);
      const [manifest] = jsonOf(members, "manifest.json") as {
        Config: string;
        RepoTags: string[];
        Layers: string[];
      }[];
      assert.ok(manifest);
      assert.deepEqual(manifest.RepoTags, [reference]);
      assert.equal(manifest.Config, `blobs/sha256/${path}`, "give changed content a new tag");
    });

    test(`runs the shipped program of ${architecture} as a user without rights and adds no labels`, async () => {
      const members = await readTar((await builtinPauseImage(architecture)).archive);
      const [manifest] = jsonOf(members, "manifest.json") as { Config: string; Layers: [string] }[];
      assert.ok(manifest);
      const image = jsonOf(members, manifest.Config) as { architecture: string; config: unknown };
      assert.equal(image.architecture, architecture);
      assert.deepEqual(image.config, { Entrypoint: ["/pause"], User: "65535:65535" });
      const layer = await readTar(contentOf(members, manifest.Layers[0]));
      const path = portForwardPath.slice(1);
      assert.deepEqual([...layer.keys()], ["pause", path]);
      for (const [member, program] of [
        ["pause", "pause"],
        [path, "port-forward"],
      ] as const) {
        assert.equal(layer.get(member)?.header.mode, 0o755);
        const shipped = new URL(`../../../pause/bin/${program}-${architecture}`, import.meta.url);
        assert.deepEqual(contentOf(layer, member), await readFile(shipped));
      }
      // Sandboxes of other images get the same file in the same place.
      const copied = await readTar(await portForwardArchive(architecture));
      assert.deepEqual(contentOf(copied, path), contentOf(layer, path));
      assert.equal(copied.get(path)?.header.mode, 0o755);
    });
  }

  for (const [kernelName, name] of [
    ["x86_64", "amd64"],
    ["aarch64", "arm64"],
  ] as const) {
    test(`knows ${name} as ${kernelName} as well`, async () => {
      assert.deepEqual(await builtinPauseImage(kernelName), await builtinPauseImage(name));
    });
  }

  test("refuses an architecture that it has no program for", async () => {
    await assert.rejects(builtinPauseImage("riscv64"), (error) => {
      return isKind(error, "unsupported") && error.message.includes('"riscv64"');
    });
  });
});
