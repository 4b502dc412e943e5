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
  const containers = (...all: readonly object[]): object => ({
    containers: all.map((one, index) => ({ id: `c${index}`, ...one })),
  });
  const [lost, web] = [
    { name: "lost", namespace: "shop", uid: "" },
    { name: "web", namespace: "shop", uid: "u" },
  ];
  const named = (name: string): object => ({ image: { image: name }, image_ref: "sha256:1" });
  const keysOfRequest = JSON.stringify({ keys: ["app", "lost"] });
  const ended = (code: number, reason: string): object => status({ state: 2, exit_code: code, reason });
  const used = (id: string, value: string): object => ({
    ...{ attributes: { id }, cpu: { usage_core_nano_seconds: { value } } },
  });
  const failed = (code: number, message: string): object => ({ error: { code, message } });
  const mount = (path: string, from: string): object => ({
    ...{ container_path: path, host_path: from, image: null },
  });
  for (const [name, rpc, there, here, keys, kind] of [
    [
      "the API version of cri-dockerd, and a build of the engine",
      "Version",
      { runtime_version: "28.5.2+dfsg4", runtime_api_version: "v1" },
      { runtime_version: "28.5.2", runtime_api_version: "1.51.0" },
      "engine-build api-version",
    ],
    [
      "no other engine, and not the API version of dockershim",
      "Version",
      { runtime_version: "26.1.5", runtime_api_version: "1.45.0" },
      { runtime_version: "28.5.2", runtime_api_version: "1.51.0" },
      "- -",
      "kubelet-dockershim",
    ],
    [
      "whole seconds of the same second",
      "ListContainers",
      container({ created_at: "1795443773000000000" }),
      container({ created_at: "1795443773210054000" }),
      "created-at-seconds",
    ],
    [
      "not the start of another second",
      "ListContainers",
      container({ created_at: "1795443774000000000" }),
      container({ created_at: "1795443773210054000" }),
      "-",
    ],
    [
      "a pod that this program knows from a checkpoint, not any other pod",
      "ListPodSandbox",
      { items: [] },
      {
        items: [
          { id: "p1", metadata: lost, created_at: "0" },
          { id: "p2", metadata: web, created_at: "5" },
        ],
      },
      "checkpoint-alone -",
    ],
    [
      "the id of an image that has lost its tag, not another name",
      "ListContainers",
      containers(named("sha256:1"), named("b:1")),
      containers(named("a:1"), named("a:1")),
      "image-name-in-lists -",
    ],
    [
      "labels of the image and of this program, not a lost or changed one of the request",
      "ContainerStatus",
      status({ labels: { "dockershim.label-keys": keysOfRequest, app: "a", lost: "x", ofImage: "" } }),
      status({ labels: { app: "b", tier: "c" } }),
      "image-labels - - image-labels -",
    ],
    [
      "no missing label of a pod that the other made",
      "ListContainers",
      container({ labels: { app: "a", "dockershim.label-keys": "{" } }),
      container({ labels: {} }),
      "- -",
    ],
    [
      "a label that begins like Docker's labels for annotations",
      "ContainerStatus",
      status({ labels: {}, annotations: { a: "1", b: "2" } }),
      status({ labels: { "annotation.a": "1" }, annotations: {} }),
      "labels-like-annotations labels-like-annotations -",
    ],
    [
      "EXITED for CREATED after a failed start, not for RUNNING",
      "ListContainers",
      containers({ state: 0 }, { state: 1 }),
      containers({ state: 2 }, { state: 2 }),
      "failed-start-in-lists -",
    ],
    [
      "a failed start of another program before it is seen",
      "ContainerStatus",
      status({ state: 2, exit_code: 127, reason: "ContainerCannotRun", message: "no such file" }),
      status({ state: 0 }),
      "failed-start-elsewhere failed-start-elsewhere failed-start-elsewhere failed-start-elsewhere",
    ],
    [
      "not an end that this program missed",
      "ContainerStatus",
      status({ state: 2, exit_code: 1, reason: "Error" }),
      status({ state: 1 }),
      "- - -",
    ],
    [
      "memory that ran out for a child",
      "ContainerStatus",
      ended(143, "OOMKilled"),
      ended(143, "Error"),
      "killed-child",
    ],
    [
      "not a process that the kernel killed",
      "ContainerStatus",
      ended(137, "OOMKilled"),
      ended(137, "Error"),
      "-",
    ],
    [
      "another repository of the same digest",
      "ContainerStatus",
      status({ image_ref: "docker-pullable://a@sha256:1" }),
      status({ image_ref: "docker-pullable://b@sha256:1" }),
      "image-ref-repository",
    ],
    [
      "not another digest",
      "ContainerStatus",
      status({ image_ref: "docker-pullable://a@sha256:1" }),
      status({ image_ref: "docker-pullable://a@sha256:2" }),
      "-",
    ],
    [
      "times that overflow",
      "ContainerStatus",
      status({ started_at: "-6795364578871345152" }),
      status({ started_at: "0" }),
      "never-started",
    ],
    [
      "zeros as statistics of a container that does not run, not of one that does",
      "ListContainerStats",
      { stats: [used("c1", "0"), used("c2", "7")] },
      { stats: [] },
      "statistics-of-ended-containers -",
    ],
    [
      "an RPC that the other does not offer",
      "ListPodSandboxStats",
      failed(12, "method ListPodSandboxStats not implemented"),
      { stats: [] },
      "rpc-not-offered",
    ],
    ["not an RPC that only the other offers", "ListPodSandboxStats", { stats: [] }, failed(12, "no"), "-"],
    [
      "UNKNOWN for the error of an absent object",
      "ContainerStatus",
      failed(2, "Error response from daemon"),
      failed(5, "find container"),
      "error-code error-text",
    ],
    [
      "names without a tag, not a missing tag",
      "ImageStatus",
      image({ repo_tags: ["<none>:<none>", "a:1"] }),
      image({ repo_tags: [] }),
      "names-without-tag -",
    ],
    [
      "a digest among the tags, not a missing digest",
      "ImageStatus",
      image({ repo_tags: ["a@sha256:1"], repo_digests: ["a@sha256:2", "<none>@<none>"] }),
      image({ repo_tags: [], repo_digests: [] }),
      "names-without-tag - names-without-tag",
    ],
    [
      "the path of an image volume, not a missing path of another mount",
      "ContainerStatus",
      status({ mounts: [mount("/image", "/var/lib/docker/volumes/x"), mount("/data", "/data")] }),
      status({ mounts: [{ ...mount("/image", ""), image: { image: "sha256:1" } }, mount("/data", "")] }),
      "image-volumes image-volumes -",
    ],
    [
      "pods and images that only containerd has",
      "ListImages",
      { images: [{ id: "sha256:1", size: "5" }, { id: "sha256:2" }] },
      { images: [{ id: "sha256:1", size: "9" }] },
      "own-images own-objects",
      "containerd",
    ],
    [
      "not an image that only cri-dockerd has",
      "ListImages",
      { images: [{ id: "sha256:2" }] },
      { images: [] },
      "-",
    ],
  ] as readonly (readonly [string, string, object, object, string, ServerKind?])[])
    test(name, () => assert.equal(keysOf(rpc, there, here, kind).join(" "), keys));

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
