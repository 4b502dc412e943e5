import assert from "node:assert/strict";
import { test } from "node:test";
import { readPodEnd, writePodEnd } from "../../../../src/play/node/pod-end.js";
import { makeFixture } from "../fake-cri.js";

const key = { uid: "uid-1" };
const end = { reason: "Evicted", message: "it was too large" };

test("the end of a pod counts for the sandbox in which it has ended, and for no later one", async () => {
  const { deps } = makeFixture();
  assert.equal(await readPodEnd(key, "s1", deps), undefined);
  await writePodEnd(key, "s1", end, deps);
  assert.deepEqual(await readPodEnd(key, "s1", deps), { phase: "Failed", ...end });
  assert.equal(await readPodEnd(key, "s2", deps), undefined);
});

test("a file that is damaged tells no end", async () => {
  const { deps, files } = makeFixture();
  for (const text of ["", "{", "null", '"s1"', "[]", "{}"]) {
    await files.replaceFile("/state/uid-1/end.json", text);
    assert.equal(await readPodEnd(key, "s1", deps), undefined, text);
  }
});
