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
    "no host paths are reached",
    { reach: job("hostPaths", { reached: false }) },
    { ...here, hostPaths: false },
  ],
  [
    "no namespaces are reached",
    { reach: job("networkNamespaces", { reached: false, reason: "x" }) },
    { ...here, networkNamespaces: false },
  ],
  ["a proof is still to come", { reach: job("hostPaths", { reached: false, pending: true }) }, here],
] as const)
  test(`readReach(): ${what}`, () =>
    assert.deepEqual(readReach(info), { ...expected, engineId: "", root: undefined, directory: undefined }));

test("readReach() tells directory and engine, and who root of a container is with userns-remap", () => {
  const directory = { path: "/state", id: "boot:1:2" };
  assert.deepEqual(readReach({ reach: JSON.stringify({ directory }) }).directory, directory);
  assert.equal(readReach({ reach: JSON.stringify({ directory: { path: "/state" } }) }).directory, undefined);
  const dockerRootDir = "/var/lib/docker/100000.200000";
  for (const usernsRemap of [true, false]) {
    const info = { engineId: "ID", security: { usernsRemap }, dockerRootDir };
    const { engineId, root } = readReach({ engine: JSON.stringify(info) });
    assert.deepEqual([engineId, root], ["ID", usernsRemap ? { uid: 100_000, gid: 200_000 } : undefined]);
  }
});

test("claimVolume() tells all claims apart, and fits into a directory's name", () => {
  assert.equal(claimVolume("default", "data"), "dockershim-play-claim-default.data");
  assert.notEqual(claimVolume("a-b", "c"), claimVolume("a", "b-c"));
  const long = "x".repeat(253);
  const names = [claimVolume("n", long), claimVolume("n", `${long.slice(1)}y`)];
  assert.equal(new Set(names).size, 2);
  for (const name of names) assert.ok(name.length <= 255 && isClaimVolume(name));
});
