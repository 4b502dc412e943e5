import assert from "node:assert/strict";
import { test } from "node:test";
import { stringify } from "yaml";
import { commentedFile } from "../../../src/shim/config/commented-file.js";
import { optionList } from "../../../src/shim/config/options.js";
import { resolveConfig } from "../../../src/shim/config/resolve.js";

const text = commentedFile(stringify);
const resolve = async (file: string) =>
  resolveConfig(
    [{ name: "config", text: "/c.yaml" }],
    {},
    () => Promise.resolve(file),
    () => Promise.resolve(false),
  );

test("the commented file sets nothing", async () => {
  assert.doesNotMatch(text, /^[^#\n]/m);
  assert.deepEqual((await resolve(text)).config, (await resolve("{}")).config);
});

test("every option of the commented file can be set by taking its # away, and has the default then", async () => {
  const set = text.replace(/^#([a-z])/gm, "$1");
  const { config, sources } = await resolve(set);
  assert.deepEqual(config, (await resolve("{}")).config);
  for (const [, { name }] of optionList) assert.equal(sources[name]?.source, "file", name);
});

test("what is given is set in the commented file, and all else is a comment", async () => {
  const { sources } = await resolve(commentedFile(stringify, { "network-plugin": "cni" }));
  const set = Object.entries(sources).filter(([, { source }]) => source === "file");
  assert.deepEqual(
    set.map(([name, { value }]) => [name, value]),
    [["network-plugin", "cni"]],
  );
});
