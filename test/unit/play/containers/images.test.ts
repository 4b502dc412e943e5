import assert from "node:assert/strict";
import { test } from "node:test";
import { ensureImage, pullPolicy } from "../../../../src/play/containers/images.js";
import { FakeCri } from "../fake-cri.js";

const policies: readonly (readonly [string, string])[] = [
  ["busybox", "Always"],
  ["busybox:latest", "Always"],
  ["registry:5000/busybox", "Always"],
  ["busybox:1", "IfNotPresent"],
  ["dockershim.local/busybox:1", "IfNotPresent"],
  [`busybox@sha256:${"0".repeat(64)}`, "IfNotPresent"],
  [`busybox:latest@sha256:${"0".repeat(64)}`, "IfNotPresent"],
];
for (const [image, expected] of policies) {
  test(`pullPolicy() of ${image} is ${expected}`, () => {
    assert.equal(pullPolicy({ image }), expected);
  });
}

type Policy = "Always" | "IfNotPresent" | "Never";

/** Policy, whether the image is there → the calls, or the error. */
const cases: readonly (readonly [Policy, boolean, readonly string[] | RegExp])[] = [
  ["Always", true, ["pullImage x:1"]],
  ["Always", false, ["pullImage x:1"]],
  ["IfNotPresent", true, []],
  ["IfNotPresent", false, ["pullImage x:1"]],
  ["Never", true, []],
  ["Never", false, /not on this node, and imagePullPolicy is Never/],
];
for (const [imagePullPolicy, isPresent, expected] of cases) {
  test(`ensureImage() with ${imagePullPolicy} and an image that is ${isPresent ? "" : "not "}there`, async () => {
    const cri = new FakeCri();
    if (isPresent) cri.images.set("x:1", {});
    const container = { name: "c", image: "x:1", imagePullPolicy };
    const pulls: string[] = [];
    const deps = { client: cri, onPull: (image: string) => pulls.push(image) };
    const result = ensureImage(container, {}, deps, new AbortController().signal);
    if (expected instanceof RegExp) {
      await assert.rejects(result, expected);
      return;
    }
    assert.ok((await result).id);
    assert.deepEqual(cri.calls, expected);
    assert.equal(pulls.length, expected.length);
  });
}

const hints: readonly (readonly [string, Policy | undefined, boolean, RegExp])[] = [
  [
    "names the tag that made it pull an image that is there",
    undefined,
    true,
    /it broke; the image is on this node, but its tag/,
  ],
  [
    "names the policy that made it pull an image that is there",
    "Always",
    true,
    /on this node, but imagePullPolicy is Always/,
  ],
  ["says nothing of the node when the image is not there", undefined, false, /^pull image "x": it broke$/],
];
for (const [what, imagePullPolicy, isPresent, expected] of hints) {
  test(`ensureImage() ${what}`, async () => {
    const cri = new FakeCri();
    cri.failOn = "pullImage x";
    if (isPresent) cri.images.set("x", {});
    const container = { name: "c", image: "x", ...(imagePullPolicy && { imagePullPolicy }) };
    const deps = { client: cri, onPull: () => undefined };
    await assert.rejects(ensureImage(container, {}, deps, new AbortController().signal), {
      message: expected,
    });
  });
}

test("ensureImage() names the policy of a volume as the manifest does", async () => {
  const wanted = { image: "x:1", imagePullPolicy: "Never", policyField: "pullPolicy" } as const;
  const deps = { client: new FakeCri(), onPull: () => undefined };
  await assert.rejects(ensureImage(wanted, {}, deps, new AbortController().signal), {
    message: /not on this node, and pullPolicy is Never/,
  });
});
