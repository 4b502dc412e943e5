import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ensureImage, pullPolicy } from "../../../../src/play/kubelet/images.js";
import { ShimError } from "../../../../src/lib/errors.js";
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

const quiet = {
  credentials: () => Promise.resolve([]),
  onPull: () => undefined,
  onLocalImage: () => undefined,
};

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
    const deps = { ...quiet, client: cri, onPull: (image: string) => pulls.push(image) };
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
    "names the policy that spares the pull of an image that is there",
    "Always",
    true,
    /it broke; the image is on this node: write "imagePullPolicy: IfNotPresent"/,
  ],
  ["says nothing of the node when the image is not there", undefined, false, /^pull image "x": it broke$/],
];
for (const [what, imagePullPolicy, isPresent, expected] of hints) {
  test(`ensureImage() ${what}`, async () => {
    const cri = new FakeCri();
    cri.failOn = "pullImage x";
    if (isPresent) cri.images.set("x", { repo_digests: ["x@sha256:0"] });
    const container = { name: "c", image: "x", ...(imagePullPolicy && { imagePullPolicy }) };
    const deps = { ...quiet, client: cri };
    await assert.rejects(ensureImage(container, {}, deps, new AbortController().signal), {
      message: expected,
    });
  });
}

test("ensureImage() names the policy of a volume as the manifest does", async () => {
  const wanted = { image: "x:1", imagePullPolicy: "Never", policyField: "pullPolicy" } as const;
  const deps = { ...quiet, client: new FakeCri() };
  await assert.rejects(ensureImage(wanted, {}, deps, new AbortController().signal), {
    message: /not on this node, and pullPolicy is Never/,
  });
});

describe("ensureImage() of an image with the tag latest that is on this node", () => {
  const local: readonly (readonly [string, readonly string[], Error | undefined, readonly string[]])[] = [
    ["is not pulled when it never was in a registry", [], undefined, []],
    [
      "is used when its registry does not have it",
      ["x@sha256:0"],
      new ShimError("notFound", "gone"),
      ["pullImage x"],
    ],
    ["is used when its registry denies it", ["x@sha256:0"], new ShimError("denied", "no"), ["pullImage x"]],
    [
      "is used when its registry cannot be reached",
      ["x@sha256:0"],
      new ShimError("unavailable", "no route"),
      ["pullImage x"],
    ],
  ];
  for (const [what, repo_digests, error, calls] of local) {
    test(what, async () => {
      const cri = new FakeCri();
      cri.images.set("x", { repo_digests });
      if (error !== undefined) cri.pullErrors.push(error);
      const used: string[] = [];
      const deps = { ...quiet, client: cri, onLocalImage: (image: string) => used.push(image) };
      assert.ok((await ensureImage({ image: "x" }, {}, deps, new AbortController().signal)).id);
      assert.deepEqual([cri.calls, used], [calls, ["x"]]);
    });
  }

  test("is an error when Always is written", async () => {
    const cri = new FakeCri();
    cri.images.set("x", { repo_digests: [] });
    cri.pullErrors.push(new ShimError("notFound", "no"));
    const wanted = { image: "x", imagePullPolicy: "Always" } as const;
    const result = ensureImage(wanted, {}, { ...quiet, client: cri }, new AbortController().signal);
    await assert.rejects(result, { kind: "notFound" });
  });
});

test("ensureImage() tries all credentials in turn, and names all errors", async () => {
  const cri = new FakeCri();
  const users = [{ username: "a" }, { username: "b" }];
  const deps = { ...quiet, client: cri, credentials: () => Promise.resolve(users) };
  const { signal } = new AbortController();
  cri.pullErrors.push(new ShimError("denied", "not a"));
  await ensureImage({ image: "x:1" }, {}, deps, signal);
  assert.deepEqual(cri.auths, users);
  cri.pullErrors.push(new ShimError("denied", "not a"), new ShimError("denied", "not b"));
  await assert.rejects(ensureImage({ image: "y:1" }, {}, deps, signal), /\[not a, not b\]/);
});
