import assert from "node:assert/strict";
import { test } from "node:test";
import { readReach } from "../../../../src/play/remote-engine/reach.js";
import { claimVolume, isClaimVolume } from "../../../../src/play/pod-config/volume-names.js";

const here = { hostPaths: true, networkNamespaces: true };
const job = (name: string, value: object): string => JSON.stringify({ jobs: { [name]: value } });

for (const [what, info, expected] of [
  ["another server tells nothing", {}, here],
  ["another program has other texts there", { reach: "yes", engine: "[" }, here],
  [
    "host paths are not reached",
    { reach: job("hostPaths", { reached: false }) },
    { ...here, hostPaths: false },
  ],
  [
    "network namespaces are not reached",
    { reach: job("networkNamespaces", { reached: false, reason: "x" }) },
    { ...here, networkNamespaces: false },
  ],
  ["a proof is still to come", { reach: job("hostPaths", { reached: false, pending: true }) }, here],
] as const)
  test(`readReach(): ${what}`, () => {
    assert.deepEqual(readReach(info), { ...expected, engineId: "", root: undefined, directory: undefined });
  });

test("readReach() tells the server's directory", () => {
  const directory = { path: "/state", id: "boot:1:2" };
  assert.deepEqual(readReach({ reach: JSON.stringify({ directory }) }).directory, directory);
  assert.equal(readReach({ reach: JSON.stringify({ directory: { path: "/state" } }) }).directory, undefined);
});

test("readReach() tells the engine by its id", () => {
  assert.equal(readReach({ engine: JSON.stringify({ engineId: "ID" }) }).engineId, "ID");
});

test("readReach() tells who root of a container is with userns-remap", () => {
  const engine = (usernsRemap: boolean): string =>
    JSON.stringify({ security: { usernsRemap }, dockerRootDir: "/var/lib/docker/100000.200000" });
  assert.deepEqual(readReach({ engine: engine(true) }).root, { uid: 100_000, gid: 200_000 });
  assert.equal(readReach({ engine: engine(false) }).root, undefined);
});

test("claimVolume() tells all claims apart, and fits into a directory's name", () => {
  assert.equal(claimVolume("default", "data"), "dockershim-play-claim-default.data");
  assert.notEqual(claimVolume("a-b", "c"), claimVolume("a", "b-c"));
  const long = "x".repeat(253);
  const names = [claimVolume("n", long), claimVolume("n", `${long.slice(1)}y`)];
  assert.equal(new Set(names).size, 2);
  for (const name of names) assert.ok(name.length <= 255 && isClaimVolume(name));
});
