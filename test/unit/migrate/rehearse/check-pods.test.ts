import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { CriConnection } from "../../../../src/client/cri-connection.js";
import { encodeCheckpoint } from "../../../../checkpoints/checkpoint.js";
import { checkCheckpoints } from "../../../../src/migrate/rehearse/check-checkpoints.js";
import { compareStatuses } from "../../../../src/migrate/rehearse/statuses.js";
import { checkAnswers, checkByLegacyRules } from "../../../../src/migrate/rehearse/check-pods.js";
import { directoriesOfMade, type MadePod, onScratch } from "../../../../src/migrate/rehearse/scratch-pods.js";
import { verdictPage } from "../../../../src/migrate/rehearse/verdict.js";
import type { Snapshot } from "../../../../src/domain/snapshot.js";
import { containerSnapshot, idOf, sandboxSnapshot } from "../../../fakes/snapshots.js";
import { containerConfig, podConfig } from "../../plan/builders.js";

const signal = new AbortController().signal;
const [sandboxId, containerId] = [idOf("a"), idOf("c")];
const metadata = { name: "web", namespace: "default", uid: "uid-1", attempt: 2 };
const pod: MadePod = {
  id: sandboxId,
  recorded: {
    ...{ id: idOf("1"), answers: {}, containers: [] },
    config: podConfig({ metadata, labels: { app: "web" } }),
  },
  containers: [
    {
      id: containerId,
      recorded: {
        ...{ id: idOf("2"), answers: {}, started: true },
        config: containerConfig({ metadata: { name: "c1", attempt: 1 } }),
      },
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

async function problemsOf(answers: Readonly<Record<string, unknown>>) {
  return (await check(answers)).problems;
}

const status = right.ContainerStatus.status;

describe("checkAnswers()", () => {
  test("finds nothing where all is as it was", async () => {
    assert.deepEqual(await problemsOf({}), []);
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
      const problems = await problemsOf(answers);
      const found = problems.find((one) => text.test(one.text));
      assert.equal(found?.subject, subject, JSON.stringify(problems));
    });
  }
});

describe("compareStatuses()", () => {
  const mounts = [{ container_path: "/etc/hosts", host_path: "/h", readonly: true }];

  test("finds a change of any field, by its path", async () => {
    const { statuses: first } = await check({ ContainerStatus: { status: { ...status, mounts } } });
    const changedMount = { ...mounts[0], readonly: false };
    const { statuses: second } = await check({
      ContainerStatus: { status: { ...status, mounts: [changedMount] } },
    });
    assert.deepEqual(compareStatuses(first, first), []);
    assert.deepEqual(
      compareStatuses(first, second).map(({ subject, text }) => [subject, text]),
      [
        [
          "container default/web/c1",
          "ContainerStatus: status.mounts[/etc/hosts].readonly is false, was true",
        ],
      ],
    );
  });

  test("expects the user of a process, which is known later, and a container more in a pod", async () => {
    const { statuses: first } = await check({});
    const { statuses: second } = await check({
      ContainerStatus: { status: { ...status, user: { linux: { uid: "1" } } } },
      PodSandboxStatus: { ...right.PodSandboxStatus, containers_statuses: [{ id: "new" }] },
    });
    assert.deepEqual(compareStatuses(first, second), []);
  });

  test("finds an answer that became an error", async () => {
    const { statuses: first } = await check({});
    const { statuses: second } = await check({ PodSandboxStatus: undefined });
    const [problem] = compareStatuses(first, second);
    assert.equal(problem?.subject, "pod default/web");
    assert.match(problem.text, /PodSandboxStatus: error/);
  });
});

describe("checkCheckpoints()", () => {
  const expected = { id: sandboxId, subject: "pod default/web", namespace: "default", name: "web" };
  const file = (flavour: "dockershim" | "criDockerd", name: string): Uint8Array =>
    encodeCheckpoint({ version: "v1", name, namespace: "default", data: {} }, flavour);
  for (const [what, bytes, text] of [
    ["nothing in a file of the right program", file("dockershim", "web"), undefined],
    [
      "the checksum of the other program",
      file("criDockerd", "web"),
      /checksum of cri-dockerd, not of dockershim/,
    ],
    ["another pod", file("dockershim", "db"), /is that of default\/db/],
    ["a corrupt file", new TextEncoder().encode("{"), /is corrupt: /],
    ["a missing file", undefined, /is missing/],
  ] as const) {
    test(`finds ${what}`, async (t) => {
      const directory = await mkdtemp(join(tmpdir(), "dockershim-checkpoints-"));
      t.after(() => rm(directory, { recursive: true }));
      if (bytes !== undefined) await writeFile(join(directory, sandboxId), bytes);
      const problems = await checkCheckpoints(directory, [{ ...expected, flavour: "dockershim" }]);
      assert.equal(problems.length, text === undefined ? 0 : 1);
      if (text !== undefined) assert.match(problems[0]?.text ?? "", text);
    });
  }
});

describe("what recorded pods are made of on a scratch host", () => {
  const node = {
    program: "cri-dockerd",
    cgroupDriver: "cgroupfs",
    pauseImage: "p",
    networkMode: "none",
  } as const;
  const made = (host: object) =>
    onScratch({ Image: "evil", Entrypoint: ["/bin/sh"], HostConfig: host } as never, node, "/tmp/r");

  test("no image, command, host path, device, CPU set, OOM score or cgroup of the recorded node", () => {
    const body = made({
      Binds: ["/:/host"],
      Devices: [{}],
      CgroupParent: "/x",
      CpusetCpus: "0-95",
      // Not every host may lower scores.
      OomScoreAdj: -998,
      Memory: 5,
    });
    assert.deepEqual(body, {
      ...{ Image: "p", Labels: { "dockershim.rehearsal": "/tmp/r" } },
      HostConfig: { Memory: 5, SecurityOpt: [] },
    });
  });

  test("no namespace of a container that the rehearsal did not make", () => {
    const own = { IpcMode: "container:made", PidMode: "container:made" };
    assert.equal(made(own).HostConfig.PidMode, "container:made");
    assert.equal(made({ ...own, PidMode: "container:other" }).HostConfig.PidMode, undefined);
    assert.equal(made({ ...own, PidMode: "host" }).HostConfig.PidMode, "host");
  });
});

test("only containers of rehearsals are found again, and no others with their label", async () => {
  const labels = [
    "/tmp/dockershim-rehearsal-a1",
    "/tmp/dockershim-rehearsal-a1",
    "/etc",
    "x",
    "/a/../dockershim-rehearsal-b",
  ];
  const listed = labels.map((value) => ({ labels: { "dockershim.rehearsal": value } }));
  const engine = { listContainers: () => Promise.resolve(listed) };
  assert.deepEqual(await directoriesOfMade(engine as never, signal), ["/tmp/dockershim-rehearsal-a1"]);
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
  const long = "word ".repeat(60).trim();
  const lines = verdictPage({
    ...{ recording: "r", as: "dockershim", pods: 1, containers: 0, notes: [long], findings: [] },
    steps: [{ name: "make", did: long }],
  }).split("\n");
  assert.deepEqual(
    lines.filter((line) => line.length > 100),
    [],
  );
  assert.match(page, /Verdict: 1 findings\./);
});
