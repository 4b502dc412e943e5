import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { CriConnection } from "../../../../src/client/cri-connection.js";
import { checkAnswers, checkByLegacyRules } from "../../../../src/migrate/rehearse/check-pods.js";
import type { MadePod } from "../../../../src/migrate/rehearse/scratch-pods.js";
import { verdictPage } from "../../../../src/migrate/rehearse/verdict.js";
import type { Snapshot } from "../../../../src/shim/domain/snapshot.js";
import { containerSnapshot, idOf, sandboxSnapshot } from "../../../fakes/snapshots.js";
import { containerConfig, podConfig } from "../../plan/builders.js";

const signal = new AbortController().signal;
const [sandboxId, containerId] = [idOf("a"), idOf("c")];
const metadata = { name: "web", namespace: "default", uid: "uid-1", attempt: 2 };
const pod: MadePod = {
  id: sandboxId,
  recorded: { config: podConfig({ metadata, labels: { app: "web" } }), containers: [] },
  containers: [
    {
      id: containerId,
      recorded: { config: containerConfig({ metadata: { name: "c1", attempt: 1 } }), started: true },
    },
  ],
};
const sandbox = sandboxSnapshot(sandboxId, { addresses: ["10.0.0.2"] });
const container = containerSnapshot(containerId, sandboxId);
const before = new Map([
  [sandboxId, sandbox],
  [containerId, container],
]);

const right = {
  ListPodSandbox: { items: [{ id: sandboxId, state: 0 }] },
  ListContainers: { containers: [{ id: containerId, state: 1, pod_sandbox_id: sandboxId }] },
  PodSandboxStatus: {
    status: {
      metadata,
      labels: { app: "web", "dockershim.rehearsal": "/tmp/x" },
      annotations: {},
      created_at: String(sandbox.created),
      network: { ip: "10.0.0.2" },
    },
  },
  ContainerStatus: {
    status: {
      metadata: { name: "c1", attempt: 1 },
      labels: {},
      annotations: {},
      started_at: String(container.state.started),
    },
  },
};

function check(answers: Readonly<Record<string, unknown>>) {
  const all: Readonly<Record<string, unknown>> = { ...right, ...answers };
  const call = (name: string): Promise<unknown> =>
    name in all && all[name] !== undefined
      ? Promise.resolve(all[name])
      : Promise.reject(new Error(`no ${name}`));
  return checkAnswers([pod], { call } as unknown as CriConnection, before, signal);
}

const status = right.ContainerStatus.status;

describe("checkAnswers()", () => {
  test("finds nothing where all is as it was", async () => {
    assert.deepEqual(await check({}), []);
  });

  for (const [what, answers, subject, text] of [
    [
      "a missing pod",
      { ListPodSandbox: { items: [] } },
      "pod default/web",
      /state in the list is null, was 0/,
    ],
    [
      "a pod that is not ready",
      { ListPodSandbox: { items: [{ id: sandboxId, state: 1 }] } },
      "pod default/web",
      /is 1/,
    ],
    [
      "a missing container",
      { ListContainers: { containers: [] } },
      "container default/web/c1",
      /is null, was 1/,
    ],
    [
      "another time of the start",
      { ContainerStatus: { status: { ...status, started_at: "5" } } },
      "container default/web/c1",
      /the time of the start is "5"/,
    ],
    [
      "another attempt",
      { ContainerStatus: { status: { ...status, metadata: { name: "c1", attempt: 2 } } } },
      "container default/web/c1",
      /metadata is .*"attempt":2/,
    ],
    [
      "another address",
      { PodSandboxStatus: { status: { ...right.PodSandboxStatus.status, network: { ip: "10.0.0.3" } } } },
      "pod default/web",
      /the address is "10.0.0.3", was "10.0.0.2"/,
    ],
    ["an error", { PodSandboxStatus: undefined }, "pod default/web", /no PodSandboxStatus/],
  ] as const) {
    test(`finds ${what}`, async () => {
      const problems = await check(answers);
      const found = problems.find((one) => text.test(one.text));
      assert.equal(found?.subject, subject, JSON.stringify(problems));
    });
  }
});

describe("checkByLegacyRules()", () => {
  const problems = (snapshot: Snapshot | undefined) => {
    const engine = { inspectContainer: () => Promise.resolve(snapshot) };
    return checkByLegacyRules([sandboxId], engine as never, signal);
  };

  test("accepts names of six and of seven fields", async () => {
    for (const name of ["k8s_POD_web_default_uid-1_0", "k8s_POD_web_default_uid-1_0_0000beef"]) {
      assert.deepEqual(await problems(sandboxSnapshot(sandboxId, { name })), []);
    }
  });

  for (const [what, snapshot, text] of [
    [
      "a name of eight fields",
      sandboxSnapshot(sandboxId, { name: "k8s_POD_w_d_u_0_escaped_0000beef" }),
      /parsed/,
    ],
    ["a name without an attempt", sandboxSnapshot(sandboxId, { name: "k8s_POD_w_d_u_x" }), /parsed/],
    [
      "a container without a type",
      sandboxSnapshot(sandboxId, { labels: { "io.kubernetes.docker.type": "" } }),
      /type/,
    ],
    ["a container that is gone", undefined, /is gone/],
  ] as const) {
    test(`finds ${what}`, async () => {
      assert.match((await problems(snapshot))[0]?.text ?? "", text);
    });
  }
});

test("verdictPage() shows findings at their step and prints no character that a terminal acts on", () => {
  const page = verdictPage({
    ...{ recording: "r", as: "dockershim", pods: 1, containers: 0, notes: ["a note"] },
    steps: [
      { name: "make", did: "made" },
      { name: "switch", did: "asked" },
    ],
    findings: [{ step: "switch", subject: "pod a/\u001b[2J", text: "is gone" }],
  });
  assert.match(page, /ok {7}make {4}made\nFINDING {2}switch {2}asked\n {9}pod a\/\\u\{1b\}\[2J: is gone/);
  assert.match(page, /- a note/);
  assert.match(page, /Verdict: 1 findings\./);
});
