import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { compareAnswers } from "../../../../src/compare/answers/compare-answers.js";
import type { Difference } from "../../../../src/compare/answers/compare-answers.js";

const pod = (id: string, more: object = {}): object => ({
  id,
  metadata: { name: "web", namespace: "shop", uid: "u1", attempt: 0 },
  state: 0,
  created_at: "1000",
  labels: {},
  annotations: {},
  runtime_handler: "",
  ...more,
});

const container = (id: string, more: object = {}): object => ({
  id,
  metadata: { name: "app", attempt: 0 },
  labels: { "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop" },
  ...more,
});

function brief(differences: readonly Difference[]): string[] {
  return differences.map(
    ({ subject, field, left, right }) =>
      `${subject} | ${field} | ${JSON.stringify(left)} | ${JSON.stringify(right)}`,
  );
}

describe("compareAnswers()", () => {
  test("matches pods by id, not by position", () => {
    const left = { items: [pod("a".repeat(64)), pod("b".repeat(64), { state: 1 })] };
    const right = { items: [pod("b".repeat(64), { state: 0 }), pod("a".repeat(64))] };
    assert.deepEqual(brief(compareAnswers("ListPodSandbox", left, right)), [
      "pod shop/web bbbbbbbbbbbb | items[].state | 1 | 0",
    ]);
  });

  test("names a container that one side lacks, on either side", () => {
    const left = { containers: [container("c1"), container("c2")] };
    const right = { containers: [container("c2"), container("c3")] };
    assert.deepEqual(brief(compareAnswers("ListContainers", left, right)), [
      'container shop/web/app c1 | containers[] | "c1" | null',
      'container shop/web/app c3 | containers[] | null | "c3"',
    ]);
  });

  test("gives the path of a field in a status, with the key of a list or map", () => {
    const status = (mount: object, labels: object, ip: string): object => ({
      status: {
        ...pod("p1", { labels }),
        network: { ip, additional_ips: [{ ip: "fd00::1" }] },
        mounts: [mount],
      },
    });
    const left = status({ container_path: "/etc/hosts", readonly: false }, { app: "a" }, "10.0.0.1");
    const right = status(
      { container_path: "/etc/hosts", readonly: true },
      { app: "a", tier: "" },
      "10.0.0.2",
    );
    assert.deepEqual(brief(compareAnswers("PodSandboxStatus", left, right)), [
      'pod shop/web p1 | status.labels[tier] | null | ""',
      'pod shop/web p1 | status.network.ip | "10.0.0.1" | "10.0.0.2"',
      "pod shop/web p1 | status.mounts[/etc/hosts].readonly | false | true",
    ]);
  });

  test("takes an absent field for the default of its type, but not an absent message", () => {
    const full = { status: { id: "c", exit_code: 0, message: "", mounts: [], labels: {}, started_at: "0" } };
    assert.deepEqual(compareAnswers("ContainerStatus", full, { status: { id: "c" } }), []);
    const limits = { status: { id: "c", resources: { linux: null } } };
    assert.deepEqual(brief(compareAnswers("ContainerStatus", limits, { status: { id: "c" } })), [
      'container c | status.resources | {"linux":null} | null',
    ]);
  });

  test("compares values that are measured at each call by presence", () => {
    const stats = (value: string | null, timestamp: string): object => ({
      stats: [
        {
          attributes: { id: "c1", metadata: { name: "app" } },
          cpu: { timestamp, usage_core_nano_seconds: value === null ? null : { value } },
        },
      ],
    });
    const compare = (left: object, right: object): string[] =>
      brief(compareAnswers("ListContainerStats", left, right));
    assert.deepEqual(compare(stats("5", "1"), stats("9", "2")), []);
    assert.deepEqual(compare(stats("5", "1"), stats(null, "0")), [
      'container app c1 | stats[].cpu.timestamp | "1" | "0"',
      'container app c1 | stats[].cpu.usage_core_nano_seconds | {"value":"5"} | null',
    ]);
  });

  test("ignores what is absent until a measurement in the background has ended", () => {
    const stats = (more: object): object => ({ stats: { attributes: { id: "c1" }, cpu: {}, ...more } });
    const left = stats({ writable_layer: { used_bytes: { value: "1" } } });
    assert.deepEqual(compareAnswers("ContainerStats", left, stats({})), []);
  });

  test("compares the names of an image without their order, and its size exactly", () => {
    const image = (tags: readonly string[], size: string): object => ({
      images: [{ id: `sha256:${"1".repeat(64)}`, repo_tags: tags, size }],
    });
    assert.deepEqual(
      brief(compareAnswers("ListImages", image(["a:1", "b:1"], "10"), image(["b:1", "a:1", "c:1"], "11"))),
      [
        'image a:1 111111111111 | images[].repo_tags[c:1] | null | "c:1"',
        'image a:1 111111111111 | images[].size | "10" | "11"',
      ],
    );
  });

  test("compares errors by code and message, and tells an error from an answer", () => {
    const error = (code: number, message: string): object => ({ error: { code, message } });
    const options = { subject: "container c9" };
    assert.deepEqual(
      brief(compareAnswers("ContainerStatus", error(2, "no such container"), error(5, "not found"), options)),
      [
        "container c9 | error.code | 2 | 5",
        'container c9 | error.message | "no such container" | "not found"',
      ],
    );
    assert.deepEqual(brief(compareAnswers("ContainerStatus", error(5, "gone"), { status: { id: "c9" } })), [
      'container c9 | error | {"code":5,"message":"gone"} | null',
    ]);
    assert.deepEqual(compareAnswers("Version", error(14, "x"), error(14, "x")), []);
  });

  test("takes bytes and their form in a recording for equal", () => {
    const left = { stdout: Buffer.from("hi"), exit_code: 0 };
    assert.deepEqual(compareAnswers("ExecSync", left, { stdout: { base64: "aGk=" } }), []);
    assert.equal(compareAnswers("ExecSync", left, { stdout: { base64: "aG8=" } }).length, 1);
  });

  test("leaves out what the caller declares as volatile", () => {
    const answer = (created_at: string): object => ({ items: [pod("a", { created_at })] });
    const volatile = [{ field: "items[].created_at", compared: "ignored", reason: "another pod" }] as const;
    assert.equal(compareAnswers("ListPodSandbox", answer("1"), answer("2")).length, 1);
    assert.deepEqual(compareAnswers("ListPodSandbox", answer("1"), answer("2"), { volatile }), []);
  });

  test("keeps entries with the same key apart", () => {
    const metric = (name: string, ...label_values: string[]): object => ({
      name,
      label_values,
      value: { value: "1" },
    });
    const of = (...metrics: object[]): object => ({ pod_metrics: [{ pod_sandbox_id: "p", metrics }] });
    assert.deepEqual(
      brief(
        compareAnswers(
          "ListPodSandboxMetrics",
          of(metric("reads", "sda"), metric("reads", "sdb")),
          of(metric("reads", "sdb")),
        ),
      ).map((line) => line.split(" | ").slice(0, 2).join(" | ")),
      ["pod p | pod_metrics[].metrics[reads,sda]"],
    );
    assert.equal(
      compareAnswers("ListPodSandbox", { items: [pod("a"), pod("a")] }, { items: [pod("a")] }).length,
      1,
    );
  });
});
