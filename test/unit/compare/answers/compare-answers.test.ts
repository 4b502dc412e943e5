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
  const [a, b] = ["a".repeat(64), "b".repeat(64)];
  const mounted = (readonly: boolean, labels: object, ip: string): object => {
    const network = { ip, additional_ips: [{ ip: "fd00::1" }] };
    return {
      status: { ...pod("p1", { labels }), network, mounts: [{ container_path: "/etc/hosts", readonly }] },
    };
  };
  const defaults = { exit_code: 0, message: "", mounts: [], labels: {}, started_at: "0" };
  const used = (value: string | null, timestamp: string): object => {
    const cpu = { timestamp, usage_core_nano_seconds: value === null ? null : { value } };
    return { stats: [{ attributes: { id: "c1", metadata: { name: "app" } }, cpu }] };
  };
  const status = (more: object = {}): object => ({ status: { id: "c", ...more } });
  const measured = { writable_layer: { used_bytes: { value: "1" } } };
  const layer = (more: object): object => ({ stats: { attributes: { id: "c1" }, cpu: {}, ...more } });
  const image = (tags: readonly string[], size: string): object => ({
    images: [{ id: `sha256:${"1".repeat(64)}`, repo_tags: tags, size }],
  });
  const error = (code: number, message: string): object => ({ error: { code, message } });
  const output = { stdout: Buffer.from("hi"), exit_code: 0 };
  for (const [what, rpc, left, right, found] of [
    [
      "matches pods by id, not by position",
      "ListPodSandbox",
      { items: [pod(a), pod(b, { state: 1 })] },
      { items: [pod(b), pod(a)] },
      ["pod shop/web bbbbbbbbbbbb | items[].state | 1 | 0"],
    ],
    [
      "names a container that one side lacks, on either side",
      "ListContainers",
      { containers: [container("c1"), container("c2")] },
      { containers: [container("c2"), container("c3")] },
      [
        'container shop/web/app c1 | containers[] | "c1" | null',
        'container shop/web/app c3 | containers[] | null | "c3"',
      ],
    ],
    [
      "gives the path of a field in a status, with the key of a list or map",
      "PodSandboxStatus",
      mounted(false, { app: "a" }, "10.0.0.1"),
      mounted(true, { app: "a", tier: "" }, "10.0.0.2"),
      [
        'pod shop/web p1 | status.labels[tier] | null | ""',
        'pod shop/web p1 | status.network.ip | "10.0.0.1" | "10.0.0.2"',
        "pod shop/web p1 | status.mounts[/etc/hosts].readonly | false | true",
      ],
    ],
    ["takes an absent field for its default", "ContainerStatus", status(defaults), status(), []],
    [
      "takes no absent message for a default",
      "ContainerStatus",
      status({ resources: { linux: null } }),
      status(),
      ['container c | status.resources | {"linux":null} | null'],
    ],
    ["compares no measured values", "ListContainerStats", used("5", "1"), used("9", "2"), []],
    [
      "compares measured values by presence",
      "ListContainerStats",
      used("5", "1"),
      used(null, "0"),
      [
        'container app c1 | stats[].cpu.timestamp | "1" | "0"',
        'container app c1 | stats[].cpu.usage_core_nano_seconds | {"value":"5"} | null',
      ],
    ],
    ["ignores what is measured in the background", "ContainerStats", layer(measured), layer({}), []],
    [
      "compares the names of an image without their order, and its size exactly",
      "ListImages",
      image(["a:1", "b:1"], "10"),
      image(["b:1", "a:1", "c:1"], "11"),
      [
        'image a:1 111111111111 | images[].repo_tags[c:1] | null | "c:1"',
        'image a:1 111111111111 | images[].size | "10" | "11"',
      ],
    ],
    [
      "compares errors by code and message",
      "ContainerStatus",
      error(2, "no such container"),
      error(5, "not found"),
      [
        "container c9 | error.code | 2 | 5",
        'container c9 | error.message | "no such container" | "not found"',
      ],
    ],
    [
      "tells an error from an answer",
      "ContainerStatus",
      error(5, "gone"),
      { status: { id: "c9" } },
      ['container c9 | error | {"code":5,"message":"gone"} | null'],
    ],
    ["finds the same error equal", "Version", error(14, "x"), error(14, "x"), []],
    ["takes bytes and their recording for equal", "ExecSync", output, { stdout: { base64: "aGk=" } }, []],
    [
      "tells bytes from other bytes in a recording",
      "ExecSync",
      output,
      { stdout: { base64: "aG8=" } },
      ['container c9 | stdout | "aGk=" | "aG8="'],
    ],
  ] as const)
    test(what, () => {
      assert.deepEqual(brief(compareAnswers(rpc, left, right, { subject: "container c9" })), found);
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
    const found = brief(
      compareAnswers(
        "ListPodSandboxMetrics",
        of(metric("reads", "sda"), metric("reads", "sdb")),
        of(metric("reads", "sdb")),
      ),
    ).map((line) => line.split(" | ").slice(0, 2).join(" | "));
    assert.deepEqual(found, ["pod p | pod_metrics[].metrics[reads,sda]"]);
    assert.equal(
      compareAnswers("ListPodSandbox", { items: [pod("a"), pod("a")] }, { items: [pod("a")] }).length,
      1,
    );
  });
});
