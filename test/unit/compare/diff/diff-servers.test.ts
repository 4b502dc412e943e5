import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AskedServer } from "../../../../src/compare/answers/asked-server.js";
import type { Difference } from "../../../../src/compare/answers/compare-answers.js";
import { diffServers } from "../../../../src/compare/diff/diff-servers.js";
import type { ServerKind } from "../../../../src/compare/answers/server-kind.js";
import { isKind } from "../../../../src/lib/errors.js";

const { signal } = new AbortController();

type FakeServer = AskedServer & { readonly calls: readonly string[] };

/** Answers by RPC; an RPC without an answer is not offered. */
function server(
  answers: Readonly<Record<string, (request: Record<string, string>) => object>>,
  kind: ServerKind = "other",
): FakeServer {
  const calls: string[] = [];
  return {
    ...{
      socket: `/run/${kind}.sock`,
      kind,
      criVersion: "v1",
      runtimeName: "fake",
      runtimeVersion: "1",
      calls,
    },
    ask: (rpc, request) => {
      const words = Object.values(request).filter((value) => typeof value === "string");
      calls.push([rpc, ...words].join(" ").trim());
      const notOffered = { error: { code: 12, message: `no ${rpc}` } };
      return Promise.resolve(answers[rpc]?.(request as Record<string, string>) ?? notOffered);
    },
    close: () => undefined,
  };
}

const pod = (id: string, name = "web"): object => ({ id, metadata: { name, namespace: "shop" } });
const notFound = { error: { code: 5, message: "no such pod" } };

function podServer(lists: readonly object[][], statusOf: (id: string) => object): FakeServer {
  let asked = 0;
  return server({
    ListPodSandbox: () => ({ items: lists[Math.min((asked += 1), lists.length) - 1] }),
    PodSandboxStatus: ({ pod_sandbox_id: id = "" }) => statusOf(id),
  });
}

function brief(differences: readonly Difference[]): string[] {
  return differences.map(({ rpc, subject, field }) => `${rpc} | ${subject} | ${field}`);
}

const status = (id: string): object => ({ status: pod(id) });
const diff = (left: AskedServer, right: AskedServer, options = {}) =>
  diffServers({ left, right }, { settleMs: 0, ...options }, signal);

describe("diffServers()", () => {
  test("asks for the status of every pod and container of either, and each image by id and name", async () => {
    const answers = (pods: string[]) => ({
      ListPodSandbox: () => ({ items: pods.map((id) => pod(id)) }),
      ListContainers: () => ({ containers: [{ id: "c1", metadata: { name: "app" } }] }),
      ListImages: () => ({ images: [{ id: "sha256:1", repo_tags: ["a:1", "b:1"] }] }),
      ImageStatus: () => ({ image: null }),
      PodSandboxStatus: ({ pod_sandbox_id: id = "" }) => status(id),
    });
    const left = server(answers(["p1", "p2"]));
    const right = server(answers(["p2", "p3"]));
    const { asked } = await diff(left, right);
    assert.deepEqual({ ...asked, questions: 0 }, { questions: 0, pods: 3, containers: 1, images: 1 });
    for (const { calls } of [left, right]) {
      for (const id of ["p1", "p2", "p3"]) assert.ok(calls.includes(`PodSandboxStatus ${id}`), id);
      assert.equal(calls.filter((call) => call === "ImageStatus").length, 3);
    }
  });

  test("asks again once, so that a pod that came between the two calls is no difference", async () => {
    const left = podServer([[], [pod("p1")]], status);
    const right = podServer([[pod("p1")]], status);
    const { differences } = await diff(left, right);
    assert.deepEqual(differences, []);
  });

  test("reports what differs the second time, too, and no status that the list explains", async () => {
    const left = podServer([[]], () => notFound);
    const right = podServer([[pod("p1")]], status);
    const { differences } = await diff(left, right);
    assert.deepEqual(brief(differences), ["ListPodSandbox | pod shop/web p1 | items[]"]);
    assert.equal(left.calls.filter((call) => call === "ListPodSandbox").length, 2);
  });

  test("an RPC that one side does not offer, or not in time, is one difference and asked about one pod", async () => {
    const pods = [pod("p1"), pod("p2"), pod("p3")];
    for (const code of [12, 4]) {
      const left = podServer([pods], status);
      const right = podServer([pods], () => ({ error: { code, message: "not today" } }));
      const { differences } = await diff(left, right);
      assert.deepEqual(brief(differences), ["PodSandboxStatus | server | error"]);
      const found = [...new Set(right.calls.filter((call) => call.startsWith("PodSandboxStatus")))];
      assert.deepEqual(found, ["PodSandboxStatus p1"]);
    }
  });

  test("compares one pod alone, with its containers", async () => {
    const of = (image: string): FakeServer =>
      server({
        Version: () => ({ version: image }),
        ListPodSandbox: () => ({ items: [pod("p1"), pod("p2", "other")] }),
        ListContainers: () => ({
          containers: [
            { id: "c1", pod_sandbox_id: "p1", image_ref: image, metadata: { name: "app" } },
            { id: "c2", pod_sandbox_id: "p2", image_ref: image, metadata: { name: "app" } },
          ],
        }),
        PodSandboxStatus: ({ pod_sandbox_id: id = "" }) => status(id),
        ContainerStatus: () => ({ status: { id: "c1" } }),
      });
    const [left, right] = [of("a"), of("b")];
    const { differences } = await diff(left, right, { pod: { namespace: "shop", name: "web" } });
    assert.deepEqual(brief(differences), ["ListContainers | container app c1 | containers[].image_ref"]);
    assert.ok(!left.calls.some((call) => /p2|c2|^Version|Images/.test(call)), left.calls.join());
    await assert.rejects(
      diff(left, right, { pod: { namespace: "shop", name: "none" } }),
      (error) => isKind(error, "notFound") && /neither server lists it/.test(error.message),
    );
  });
});
