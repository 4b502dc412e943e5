import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { parseReplicas, readManifestFiles } from "../../../../src/play/manifests/manifest-files.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const { signal } = new AbortController();

test("readManifestFiles() reads the manifests of a directory by name, and those below with recursive", async () => {
  await using temporary = await temporaryDirectory();
  const { path } = temporary;
  await mkdir(join(path, "b"));
  for (const name of ["c.yaml", "a.json", "b/d.yml", "notes.txt"]) await writeFile(join(path, name), name);
  const names = async (recursive: boolean) =>
    (await readManifestFiles([path], { recursive, signal })).map(({ text }) => text);
  assert.deepEqual(await names(false), ["a.json", "c.yaml"]);
  assert.deepEqual(await names(true), ["a.json", "b/d.yml", "c.yaml"]);
});

test("readManifestFiles() refuses empty directories and those of kustomize", async () => {
  await using temporary = await temporaryDirectory();
  const { path } = temporary;
  await assert.rejects(readManifestFiles([path], { recursive: false, signal }), /no file \*\.yaml/);
  await writeFile(join(path, "kustomization.yaml"), "");
  await assert.rejects(readManifestFiles([path], { recursive: false, signal }), /kubectl kustomize/);
});

test("parseReplicas() reads numbers and names", () => {
  assert.deepEqual(parseReplicas(["3", "web=0"]), { all: 3, byName: new Map([["web", 0]]) });
  assert.throws(() => parseReplicas(["web"]), /must be a number, or NAME=NUMBER/);
});
