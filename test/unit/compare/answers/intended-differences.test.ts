import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { compareAnswers } from "../../../../src/compare/answers/compare-answers.js";
import { intendedDifferences } from "../../../../src/compare/answers/intended-differences.js";
import { withIntendedDifferences } from "../../../../src/compare/answers/intended-differences-doc.js";
import type { ServerKind } from "../../../../src/compare/answers/server-kind.js";
import { criMethods } from "../../../../src/client/cri-messages.js";

test("docs/understand/differences.md is what scripts/generate-differences-doc.mjs writes", async () => {
  const text = await readFile(new URL("../../../../docs/understand/differences.md", import.meta.url), "utf8");
  assert.equal(withIntendedDifferences(text), text);
  assert.throws(() => withIntendedDifferences("# other"), /no lines/);
});

test("reasons stand in the page of a terminal: without links", () => {
  for (const { key, reason, what } of intendedDifferences)
    assert.doesNotMatch(`${reason}${what}`, /\]\(/, key);
});

test("each key is used once, and each RPC is one of the CRI", () => {
  const keys = intendedDifferences.map(({ key }) => key);
  assert.deepEqual(keys, [...new Set(keys)]);
  for (const rpc of intendedDifferences.flatMap(({ rpcs }) => rpcs ?? []))
    assert.ok(criMethods().has(rpc), rpc);
});

/** The keys of the differences, `-` for one that is not intended. */
function keysOf(rpc: string, there: object, here: object, kind: ServerKind = "cri-dockerd"): string[] {
  const differences = compareAnswers(rpc, there, here, { servers: { left: kind, right: "dockershim" } });
  const mirrored = compareAnswers(rpc, here, there, { servers: { left: "dockershim", right: kind } });
  const keys = differences.map(({ intended }) => intended?.key ?? "-");
  assert.deepEqual(mirrored.map(({ intended }) => intended?.key ?? "-").sort(), keys.toSorted());
  return keys;
}

const container = (more: object): object => ({ containers: [{ id: "c1", ...more }] });
const status = (more: object): object => ({ status: { id: "c1", ...more } });
const image = (more: object): object => ({ image: { id: "sha256:1", ...more } });

describe("compareAnswers() knows as intended", () => {
  const cases: readonly {
    readonly name: string;
    readonly rpc: string;
    readonly there: object;
    readonly here: object;
    readonly keys: readonly string[];
    readonly kind?: ServerKind;
  }[] = [
    {
      name: "the API version of cri-dockerd, and a build of the engine",
      rpc: "Version",
      there: { runtime_version: "28.5.2+dfsg4", runtime_api_version: "v1" },
      here: { runtime_version: "28.5.2", runtime_api_version: "1.51.0" },
      keys: ["engine-build", "api-version"],
    },
    {
      name: "no other engine, and not the API version of dockershim",
      rpc: "Version",
      there: { runtime_version: "26.1.5", runtime_api_version: "1.45.0" },
      here: { runtime_version: "28.5.2", runtime_api_version: "1.51.0" },
      keys: ["-", "-"],
      kind: "kubelet-dockershim",
    },
    {
      name: "whole seconds of the same second, not of another",
      rpc: "ListContainers",
      there: container({ created_at: "1795443773000000000" }),
      here: container({ created_at: "1795443773210054000" }),
      keys: ["created-at-seconds"],
    },
    {
      name: "not the start of another second",
      rpc: "ListContainers",
      there: container({ created_at: "1795443774000000000" }),
      here: container({ created_at: "1795443773210054000" }),
      keys: ["-"],
    },
    {
      name: "a pod that this program knows from a checkpoint, not any other pod",
      rpc: "ListPodSandbox",
      there: { items: [] },
      here: {
        items: [
          { id: "p1", metadata: { name: "lost", namespace: "shop", uid: "" }, created_at: "0" },
          { id: "p2", metadata: { name: "web", namespace: "shop", uid: "u" }, created_at: "5" },
        ],
      },
      keys: ["checkpoint-alone", "-"],
    },
    {
      name: "the id of an image that has lost its tag, not another name",
      rpc: "ListContainers",
      there: {
        containers: [
          { id: "c1", image: { image: "sha256:1" }, image_ref: "sha256:1" },
          { id: "c2", image: { image: "b:1" }, image_ref: "sha256:1" },
        ],
      },
      here: {
        containers: [
          { id: "c1", image: { image: "a:1" }, image_ref: "sha256:1" },
          { id: "c2", image: { image: "a:1" }, image_ref: "sha256:1" },
        ],
      },
      keys: ["image-name-in-lists", "-"],
    },
    {
      name: "labels of the image and of this program, not a lost or changed one of the request",
      rpc: "ContainerStatus",
      there: status({
        labels: {
          "dockershim.label-keys": JSON.stringify({ keys: ["app", "lost"] }),
          app: "a",
          lost: "x",
          ofImage: "",
        },
      }),
      here: status({ labels: { app: "b", tier: "c" } }),
      keys: ["image-labels", "-", "-", "image-labels", "-"],
    },
    {
      name: "no missing label of a pod that the other made",
      rpc: "ListContainers",
      there: container({ labels: { app: "a", "dockershim.label-keys": "{" } }),
      here: container({ labels: {} }),
      keys: ["-", "-"],
    },
    {
      name: "a label that begins like Docker's labels for annotations",
      rpc: "ContainerStatus",
      there: status({ labels: {}, annotations: { a: "1", b: "2" } }),
      here: status({ labels: { "annotation.a": "1" }, annotations: {} }),
      keys: ["labels-like-annotations", "labels-like-annotations", "-"],
    },
    {
      name: "EXITED for CREATED after a failed start, not for RUNNING",
      rpc: "ListContainers",
      there: {
        containers: [
          { id: "c1", state: 0 },
          { id: "c2", state: 1 },
        ],
      },
      here: {
        containers: [
          { id: "c1", state: 2 },
          { id: "c2", state: 2 },
        ],
      },
      keys: ["failed-start-in-lists", "-"],
    },
    {
      name: "a failed start of another program before it is seen",
      rpc: "ContainerStatus",
      there: status({ state: 2, exit_code: 127, reason: "ContainerCannotRun", message: "no such file" }),
      here: status({ state: 0 }),
      keys: Array.from({ length: 4 }, () => "failed-start-elsewhere"),
    },
    {
      name: "not an end that this program missed",
      rpc: "ContainerStatus",
      there: status({ state: 2, exit_code: 1, reason: "Error" }),
      here: status({ state: 1 }),
      keys: ["-", "-", "-"],
    },
    {
      name: "memory that ran out for a child",
      rpc: "ContainerStatus",
      there: status({ state: 2, exit_code: 143, reason: "OOMKilled" }),
      here: status({ state: 2, exit_code: 143, reason: "Error" }),
      keys: ["killed-child"],
    },
    {
      name: "not a process that the kernel killed",
      rpc: "ContainerStatus",
      there: status({ state: 2, exit_code: 137, reason: "OOMKilled" }),
      here: status({ state: 2, exit_code: 137, reason: "Error" }),
      keys: ["-"],
    },
    {
      name: "another repository of the same digest, not another digest",
      rpc: "ContainerStatus",
      there: status({ image_ref: "docker-pullable://a@sha256:1" }),
      here: status({ image_ref: "docker-pullable://b@sha256:1" }),
      keys: ["image-ref-repository"],
    },
    {
      name: "not another digest",
      rpc: "ContainerStatus",
      there: status({ image_ref: "docker-pullable://a@sha256:1" }),
      here: status({ image_ref: "docker-pullable://a@sha256:2" }),
      keys: ["-"],
    },
    {
      name: "times that overflow",
      rpc: "ContainerStatus",
      there: status({ started_at: "-6795364578871345152" }),
      here: status({ started_at: "0" }),
      keys: ["never-started"],
    },
    {
      name: "zeros as statistics of a container that does not run, not of one that does",
      rpc: "ListContainerStats",
      there: {
        stats: [
          { attributes: { id: "c1" }, cpu: { usage_core_nano_seconds: { value: "0" } } },
          { attributes: { id: "c2" }, cpu: { usage_core_nano_seconds: { value: "7" } } },
        ],
      },
      here: { stats: [] },
      keys: ["statistics-of-ended-containers", "-"],
    },
    {
      name: "an RPC that the other does not offer",
      rpc: "ListPodSandboxStats",
      there: { error: { code: 12, message: "method ListPodSandboxStats not implemented" } },
      here: { stats: [] },
      keys: ["rpc-not-offered"],
    },
    {
      name: "not an RPC that only the other offers",
      rpc: "ListPodSandboxStats",
      there: { stats: [] },
      here: { error: { code: 12, message: "no" } },
      keys: ["-"],
    },
    {
      name: "UNKNOWN for the error of an absent object",
      rpc: "ContainerStatus",
      there: { error: { code: 2, message: "Error response from daemon" } },
      here: { error: { code: 5, message: "find container" } },
      keys: ["error-code", "error-text"],
    },
    {
      name: "names without a tag, not a missing tag",
      rpc: "ImageStatus",
      there: image({ repo_tags: ["<none>:<none>", "a:1"] }),
      here: image({ repo_tags: [] }),
      keys: ["names-without-tag", "-"],
    },
    {
      name: "a digest among the tags, not a missing digest",
      rpc: "ImageStatus",
      there: image({ repo_tags: ["a@sha256:1"], repo_digests: ["a@sha256:2", "<none>@<none>"] }),
      here: image({ repo_tags: [], repo_digests: [] }),
      keys: ["names-without-tag", "-", "names-without-tag"],
    },
    {
      name: "the path of an image volume, not a missing path of another mount",
      rpc: "ContainerStatus",
      there: status({
        mounts: [
          { container_path: "/image", host_path: "/var/lib/docker/volumes/x", image: null },
          { container_path: "/data", host_path: "/data", image: null },
        ],
      }),
      here: status({
        mounts: [
          { container_path: "/image", host_path: "", image: { image: "sha256:1" } },
          { container_path: "/data", host_path: "", image: null },
        ],
      }),
      keys: ["image-volumes", "image-volumes", "-"],
    },
    {
      name: "pods and images that only containerd has",
      rpc: "ListImages",
      there: { images: [{ id: "sha256:1", size: "5" }, { id: "sha256:2" }] },
      here: { images: [{ id: "sha256:1", size: "9" }] },
      keys: ["own-images", "own-objects"],
      kind: "containerd",
    },
    {
      name: "not an image that only cri-dockerd has",
      rpc: "ListImages",
      there: { images: [{ id: "sha256:2" }] },
      here: { images: [] },
      keys: ["-"],
    },
  ];
  for (const { name, rpc, there, here, keys, kind } of cases) {
    test(name, () => assert.deepEqual(keysOf(rpc, there, here, kind), keys));
  }

  test("nothing between two other programs, nor between two of this one", () => {
    for (const servers of [
      { left: "cri-dockerd", right: "containerd" },
      { left: "dockershim", right: "dockershim" },
    ] as const) {
      const [difference] = compareAnswers(
        "Version",
        { runtime_version: "1+x" },
        { runtime_version: "1" },
        { servers },
      );
      assert.ok(difference);
      assert.equal(difference.intended, undefined);
    }
  });
});
