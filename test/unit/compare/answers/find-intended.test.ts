import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { compareAnswers } from "../../../../src/compare/answers/compare-answers.js";
import { intendedDifferences } from "../../../../src/compare/answers/find-intended.js";
import { withIntendedDifferences } from "../../../../src/compare/answers/intended-doc.js";
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

const status = (more: object): object => ({ status: { id: "c1", ...more } });

describe("compareAnswers() knows as intended", () => {
  const containers = (...all: readonly object[]): object => ({
    containers: all.map((one, index) => ({ id: `c${index}`, ...one })),
  });
  const since = (created_at: string): object => containers({ created_at });
  const version = (engine: string, api: string): object => ({
    runtime_version: engine,
    runtime_api_version: api,
  });
  const pods = (...names: readonly string[]): object => ({
    items: names.map((name, index) => ({
      ...{ id: `p${index}`, metadata: { name, namespace: "shop", uid: name === "lost" ? "" : "u" } },
      created_at: name === "lost" ? "0" : "5",
    })),
  });
  const images = (...all: readonly object[]): object => ({ images: all });
  const named = (name: string): object => ({ image: { image: name }, image_ref: "sha256:1" });
  const labels = (all: object): object => status({ labels: all });
  const state = (value: number, more: object = {}): object => status({ state: value, ...more });
  const ended = (code: number, reason: string): object => state(2, { exit_code: code, reason });
  const ref = (name: string): object => status({ image_ref: `docker-pullable://${name}` });
  const used = (id: string, value: string): object => ({
    ...{ attributes: { id }, cpu: { usage_core_nano_seconds: { value } } },
  });
  const failed = (code: number, message = "no"): object => ({ error: { code, message } });
  const names = (repo_tags: readonly string[], repo_digests: readonly string[] = []): object => ({
    image: { id: "sha256:1", repo_tags, repo_digests },
  });
  const mount = (path: string, from: string, image: object | null = null): object => ({
    ...{ container_path: path, host_path: from, image },
  });
  const keysOfRequest = JSON.stringify({ keys: ["app", "lost"] });
  const cannotRun = { exit_code: 127, reason: "ContainerCannotRun", message: "no such file" };
  const elsewhere = "failed-start-elsewhere";
  const image = { image: "sha256:1" };
  type Row = readonly [what: string, there: object, here: object, keys: string, kind?: ServerKind];
  const rows: Readonly<Record<string, readonly Row[]>> = {
    Version: [
      [
        "an API version, and a build",
        version("28.5.2+dfsg4", "v1"),
        version("28.5.2", "1.51.0"),
        "engine-build api-version",
      ],
      [
        "no other engine",
        version("26.1.5", "1.45.0"),
        version("28.5.2", "1.51.0"),
        "- -",
        "kubelet-dockershim",
      ],
    ],
    ListPodSandbox: [
      ["a pod that this program knows from a checkpoint", pods(), pods("lost", "web"), "checkpoint-alone -"],
    ],
    ListContainers: [
      ["whole seconds", since("1795443773000000000"), since("1795443773210054000"), "created-at-seconds"],
      ["not another second", since("1795443774000000000"), since("1795443773210054000"), "-"],
      [
        "the id of an image that has lost its tag, not another name",
        containers(named("sha256:1"), named("b:1")),
        containers(named("a:1"), named("a:1")),
        "image-name-in-lists -",
      ],
      [
        "no missing label of a pod that the other made",
        containers({ labels: { app: "a", "dockershim.label-keys": "{" } }),
        containers({ labels: {} }),
        "- -",
      ],
      [
        "EXITED for CREATED after a failed start, not for RUNNING",
        containers({ state: 0 }, { state: 1 }),
        containers({ state: 2 }, { state: 2 }),
        "failed-start-in-lists -",
      ],
    ],
    ContainerStatus: [
      [
        "labels of the image and of this program, not a lost or changed one of the request",
        labels({ "dockershim.label-keys": keysOfRequest, app: "a", lost: "x", ofImage: "" }),
        labels({ app: "b", tier: "c" }),
        "image-labels - - image-labels -",
      ],
      [
        "a label that begins like Docker's labels for annotations",
        status({ labels: {}, annotations: { a: "1", b: "2" } }),
        status({ labels: { "annotation.a": "1" }, annotations: {} }),
        "labels-like-annotations labels-like-annotations -",
      ],
      ["a failed start elsewhere", state(2, cannotRun), state(0), Array(4).fill(elsewhere).join(" ")],
      ["not an end that was missed", state(2, { exit_code: 1, reason: "Error" }), state(1), "- - -"],
      ["the OOM of a child", ended(143, "OOMKilled"), ended(143, "Error"), "killed-child"],
      ["not the OOM of the process", ended(137, "OOMKilled"), ended(137, "Error"), "-"],
      ["another repository of a digest", ref("a@sha256:1"), ref("b@sha256:1"), "image-ref-repository"],
      ["not another digest", ref("a@sha256:1"), ref("a@sha256:2"), "-"],
      [
        "times that overflow",
        status({ started_at: "-6795364578871345152" }),
        status({ started_at: "0" }),
        "never-started",
      ],
      [
        "UNKNOWN for an absent object",
        failed(2, "Error response"),
        failed(5, "find"),
        "error-code error-text",
      ],
      [
        "the path of an image volume, not a missing path of another mount",
        status({ mounts: [mount("/image", "/var/lib/docker/volumes/x"), mount("/data", "/data")] }),
        status({ mounts: [mount("/image", "", image), mount("/data", "")] }),
        "image-volumes image-volumes -",
      ],
    ],
    ListContainerStats: [
      [
        "zeros as statistics of a container that does not run, not of one that does",
        { stats: [used("c1", "0"), used("c2", "7")] },
        { stats: [] },
        "statistics-of-ended-containers -",
      ],
    ],
    ListPodSandboxStats: [
      ["an RPC that the other does not offer", failed(12), { stats: [] }, "rpc-not-offered"],
      ["not an RPC that only the other offers", { stats: [] }, failed(12), "-"],
    ],
    ImageStatus: [
      [
        "names without a tag, not a missing tag",
        names(["<none>:<none>", "a:1"]),
        names([]),
        "names-without-tag -",
      ],
      [
        "a digest among the tags, not a missing digest",
        names(["a@sha256:1"], ["a@sha256:2", "<none>@<none>"]),
        names([]),
        "names-without-tag - names-without-tag",
      ],
    ],
    ListImages: [
      [
        "pods and images that only containerd has",
        images({ id: "sha256:1", size: "5" }, { id: "sha256:2" }),
        images({ id: "sha256:1", size: "9" }),
        "own-images own-objects",
        "containerd",
      ],
      ["not an image of cri-dockerd alone", images({ id: "sha256:2" }), images(), "-"],
    ],
  };
  for (const [rpc, all] of Object.entries(rows))
    for (const [what, there, here, keys, kind] of all)
      test(`${rpc}: ${what}`, () => assert.equal(keysOf(rpc, there, here, kind).join(" "), keys));

  test("nothing between two other programs, nor between two of this one", () => {
    for (const [left, right] of [
      ["cri-dockerd", "containerd"],
      ["dockershim", "dockershim"],
    ] as const) {
      const versions = [{ runtime_version: "1+x" }, { runtime_version: "1" }] as const;
      const [difference] = compareAnswers("Version", ...versions, { servers: { left, right } });
      assert.ok(difference);
      assert.equal(difference.intended, undefined);
    }
  });
});
