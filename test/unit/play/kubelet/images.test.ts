import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ensureImage, pullPolicy } from "../../../../src/play/kubelet/images.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { FakeCri } from "../fake-cri.js";

const { signal } = new AbortController();
const policies: readonly (readonly [string, string])[] = [
  ["busybox", "Always"],
  ["busybox:latest", "Always"],
  ["registry:5000/busybox", "Always"],
  ["busybox:1", "IfNotPresent"],
  ["dockershim.local/busybox:1", "IfNotPresent"],
  [`busybox@sha256:${"0".repeat(64)}`, "IfNotPresent"],
  [`busybox:latest@sha256:${"0".repeat(64)}`, "IfNotPresent"],
];
for (const [image, expected] of policies)
  test(`pullPolicy() of ${image} is ${expected}`, () => assert.equal(pullPolicy({ image }), expected));

interface Case {
  readonly image: string;
  readonly imagePullPolicy?: "Always" | "IfNotPresent" | "Never";
  readonly policyField?: "pullPolicy";
  /** Digests of the image that is on the node; none for an image that was never in a registry. */
  readonly digests?: readonly string[];
  readonly pullError?: ShimError;
}

/** Ensures the image: the calls, the images of the node that were used, and how many pulls were reported. */
async function ensured({ digests, pullError, ...wanted }: Case) {
  const cri = new FakeCri();
  if (digests !== undefined) cri.images.set(wanted.image, { repo_digests: digests });
  if (pullError !== undefined) cri.pullErrors.push(pullError);
  const used: string[] = [];
  const pulls: string[] = [];
  const deps = {
    client: cri,
    credentials: () => Promise.resolve([]),
    onPull: (image: string) => pulls.push(image),
    onLocalImage: (image: string) => used.push(image),
  };
  assert.ok((await ensureImage(wanted, {}, deps, signal)).id);
  assert.equal(pulls.length, cri.calls.length);
  return [...cri.calls, ...used.map((image) => `use ${image}`)];
}

const broken = new ShimError("unknown", "it broke");
const digests = ["x@sha256:0"];
const never = { image: "x:1", imagePullPolicy: "Never" } as const;
const gone = new ShimError("notFound", "gone");

describe("ensureImage()", () => {
  const cases: readonly (readonly [string, Case, readonly string[] | RegExp])[] = [
    ["pulls with Always", { image: "x:1", imagePullPolicy: "Always", digests }, ["pullImage x:1"]],
    ["pulls a missing image", { image: "x:1", imagePullPolicy: "IfNotPresent" }, ["pullImage x:1"]],
    ["takes an image that is there", { image: "x:1", imagePullPolicy: "IfNotPresent", digests }, []],
    ["takes it with Never", { ...never, digests }, []],
    ["refuses a missing image with Never", never, /not on this node, and imagePullPolicy is Never/],
    [
      "names it as a volume does",
      { ...never, policyField: "pullPolicy" },
      /not on this node, and pullPolicy is Never/,
    ],
    [
      "names the policy that spares the pull of an image that is there",
      { image: "x", imagePullPolicy: "Always", digests, pullError: broken },
      /it broke; the image is on this node: write "imagePullPolicy: IfNotPresent"/,
    ],
    ["says nothing of a node without it", { image: "x", pullError: broken }, /pull image "x": it broke$/],
    ["does not pull what was never in a registry", { image: "x", digests: [] }, ["use x"]],
    ["pulls it with Always", { image: "x", imagePullPolicy: "Always", digests: [], pullError: gone }, /gone/],
    ...(["notFound", "denied", "unavailable"] as const).map(
      (kind) =>
        [
          `uses the image of the node when the registry answers ${kind}`,
          { image: "x", digests, pullError: new ShimError(kind, "no") },
          ["pullImage x", "use x"],
        ] as const,
    ),
  ];
  for (const [what, given, expected] of cases)
    test(what, async () => {
      if (expected instanceof RegExp) await assert.rejects(ensured(given), expected);
      else assert.deepEqual(await ensured(given), expected);
    });

  test("tries all credentials in turn, and names all errors", async () => {
    const cri = new FakeCri();
    const users = [{ username: "a" }, { username: "b" }];
    const ignored = (): void => undefined;
    const credentials = () => Promise.resolve(users);
    const deps = { client: cri, credentials, onPull: ignored, onLocalImage: ignored };
    cri.pullErrors.push(new ShimError("denied", "not a"));
    await ensureImage({ image: "x:1" }, {}, deps, signal);
    assert.deepEqual(cri.auths, users);
    cri.pullErrors.push(new ShimError("denied", "not a"), new ShimError("denied", "not b"));
    await assert.rejects(ensureImage({ image: "y:1" }, {}, deps, signal), /\[not a, not b\]/);
  });
});
