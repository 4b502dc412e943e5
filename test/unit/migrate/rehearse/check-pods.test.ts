/** What a rehearsal says of pods: as they were made, as a recorded server said, and what they leave behind. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { CriConnection } from "../../../../src/client/cri-connection.js";
import { encodeCheckpoint } from "../../../../checkpoints/checkpoint.js";
import type { LegacyNode } from "../../../../src/migrate/rehearse/legacy-bodies.js";
import { compareRecorded } from "../../../../src/migrate/rehearse/recorded-answers.js";
import type { LastAnswers } from "../../../../src/migrate/rehearse/recorded-pods.js";
import { whileRelisting } from "../../../../src/migrate/rehearse/relist.js";
import { findLeft, removePods } from "../../../../src/migrate/rehearse/remove-pods.js";
import { compareStatuses, type Statuses } from "../../../../src/migrate/rehearse/statuses.js";
import {
  checkAnswers,
  checkByLegacyRules,
  checkCheckpoints,
} from "../../../../src/migrate/rehearse/check-pods.js";
import { directoriesOfMade, type MadePod, onScratch } from "../../../../src/migrate/rehearse/scratch-pods.js";
import { verdictPage } from "../../../../src/migrate/rehearse/verdict.js";
import { containerSnapshot, idOf, sandboxSnapshot } from "../../../fakes/snapshots.js";
import { containerConfig, podConfig } from "../../plan/builders.js";

const { signal } = new AbortController();
const [recordedPod, recordedContainer, podId, containerId] = [idOf("1"), idOf("2"), idOf("a"), idOf("c")];
const metadata = { name: "web", namespace: "default", uid: "uid-1", attempt: 2 };
const containerMetadata = { name: "c1", attempt: 1 };
const labels = { app: "web" };
const [podSubject, containerSubject] = ["pod default/web", "container default/web/c1"];

/** `ofPod`, `ofContainer`: what the recorded server said of them. */
function madePod(ofPod: LastAnswers = {}, ofContainer: LastAnswers = {}): MadePod {
  const config = podConfig({ metadata, labels });
  const container = containerConfig({ metadata: containerMetadata, labels });
  const recorded = { id: recordedContainer, answers: ofContainer, started: true, config: container };
  return {
    id: podId,
    recorded: { id: recordedPod, answers: ofPod, containers: [], config },
    containers: [{ id: containerId, recorded }],
  };
}

const pod = madePod();
const withoutContainers: MadePod = { ...pod, containers: [] };
const calling = (call: (name: string, request: { pod_sandbox_id: string }) => Promise<unknown>) =>
  ({ call }) as unknown as CriConnection;

const sandbox = sandboxSnapshot(podId, { addresses: ["10.0.0.2"] });
const container = containerSnapshot(containerId, podId);
const before = new Map([
  [podId, sandbox],
  [containerId, container],
]);
const ofRehearsal = { ...labels, "dockershim.rehearsal": "/tmp/x" };
const times = { created_at: String(sandbox.created), started_at: String(container.state.started) };
const podStatus = { metadata, labels: ofRehearsal, annotations: {}, ...times, network: { ip: "10.0.0.2" } };
const status = { metadata: containerMetadata, labels: ofRehearsal, annotations: {}, ...times };
const right = {
  ListPodSandbox: { items: [{ id: podId, state: 0 }] },
  ListContainers: { containers: [{ id: containerId, state: 1, pod_sandbox_id: podId }] },
  PodSandboxStatus: { status: podStatus },
  ContainerStatus: { status },
};

function check(answers: Readonly<Record<string, unknown>> = {}) {
  const all: Readonly<Record<string, unknown>> = { ...right, ...answers };
  const call = (name: string): Promise<unknown> =>
    all[name] === undefined ? Promise.reject(new Error(`no ${name}`)) : Promise.resolve(all[name]);
  return checkAnswers([pod], calling(call), before, signal);
}

const ofContainer = (changes: object): object => ({ ContainerStatus: { status: { ...status, ...changes } } });

describe("checkAnswers()", () => {
  test("finds nothing where all is as it was", async () => {
    assert.deepEqual((await check()).problems, []);
  });

  const moved = { PodSandboxStatus: { status: { ...podStatus, network: { ip: "10.0.0.3" } } } };
  for (const [what, answers, subject, text] of [
    ["a missing pod", { ListPodSandbox: { items: [] } }, podSubject, /state in the list is null, was 0/],
    ["a pod that is not ready", { ListPodSandbox: { items: [{ id: podId, state: 1 }] } }, podSubject, /is 1/],
    ["a missing container", { ListContainers: { containers: [] } }, containerSubject, /is null, was 1/],
    ["another start", ofContainer({ started_at: "5" }), containerSubject, /time of the start is "5"/],
    [
      "another attempt",
      ofContainer({ metadata: { name: "c1", attempt: 2 } }),
      containerSubject,
      /metadata is .*"attempt":2/,
    ],
    ["another address", moved, podSubject, /the address is "10.0.0.3", was "10.0.0.2"/],
    ["an error", { PodSandboxStatus: undefined }, podSubject, /no PodSandboxStatus/],
  ] as const)
    test(`finds ${what}`, async () => {
      const { problems } = await check({ ...answers });
      const found = problems.find((one) => text.test(one.text));
      assert.equal(found?.subject, subject, JSON.stringify(problems));
    });
});

describe("compareStatuses()", () => {
  const mount = { container_path: "/etc/hosts", host_path: "/h", readonly: true };
  const changed = "ContainerStatus: status.mounts[/etc/hosts].readonly is false, was true";
  for (const [what, then, now, found] of [
    ["nothing in the same answers", {}, {}, []],
    [
      "a change of any field, by its path",
      ofContainer({ mounts: [mount] }),
      ofContainer({ mounts: [{ ...mount, readonly: false }] }),
      [`${containerSubject}: ${changed}`],
    ],
    ["nothing in the user, who is known later", {}, ofContainer({ user: { linux: { uid: "1" } } }), []],
    [
      "nothing in a container more of a pod",
      {},
      { PodSandboxStatus: { ...right.PodSandboxStatus, containers_statuses: [{ id: "new" }] } },
      [],
    ],
    ["an answer that became an error", {}, { PodSandboxStatus: undefined }, [/^pod default\/web: .*: error/]],
  ] as const)
    test(`finds ${what}`, async () => {
      const [first, second] = [await check({ ...then }), await check({ ...now })];
      const problems = compareStatuses(first.statuses, second.statuses);
      if (found.length === 0) assert.deepEqual(problems, []);
      const [problem = { subject: "", text: "" }] = problems;
      for (const one of found)
        if (typeof one === "string") assert.equal(`${problem.subject}: ${problem.text}`, one);
        else assert.match(`${problem.subject}: ${problem.text}`, one);
    });
});

describe("compareRecorded()", () => {
  const said = (id: string) => ({
    ...{ id, metadata: containerMetadata, labels, state: 1, created_at: "6", started_at: "7" },
    ...{ image: { image: "nginx" }, image_ref: "nginx@sha256:1", log_path: "/var/log/pods/web/c1/3.log" },
  });
  const entry = { metadata: containerMetadata, labels, state: 1 };
  const listed = { id: recordedContainer, pod_sandbox_id: recordedPod, ...entry };
  const answers: LastAnswers = { status: { status: said(recordedContainer) }, listed };
  const ofPod = (id: string, more: object): object => ({
    status: { id, metadata, labels, state: 0, ...more },
  });

  function compare(then: LastAnswers, now: { readonly status?: object; readonly listed?: object } = {}) {
    const recorded = ofPod(recordedPod, { created_at: "5", network: { ip: "10.0.0.2" } });
    const made = madePod({ status: recorded as NonNullable<LastAnswers["status"]> }, then);
    const image = { image: { image: "pause" }, image_ref: "pause" };
    const found = { ...said(containerId), created_at: "8", started_at: "9", ...image, ...now.status };
    const foundPod = ofPod(podId, { created_at: "9", network: { ip: "172.17.0.2" } });
    const statuses = {
      pods: new Map([[podId, { subject: "", answer: foundPod }]]),
      containers: new Map([[containerId, { subject: "", answer: { status: found } }]]),
      listedPods: new Map(),
      listedContainers: new Map([
        [containerId, { id: containerId, pod_sandbox_id: podId, ...entry, ...now.listed }],
      ]),
    } as unknown as Statuses;
    return compareRecorded([made], statuses, "cri-dockerd");
  }

  test("expects other ids, times, addresses and images, and compares all that was recorded", () => {
    assert.deepEqual(compare(answers), { compared: 3, ended: 0, problems: [] });
    assert.equal(compare({}).compared, 1);
  });

  for (const [what, now, text] of [
    [
      "another attempt",
      { status: { metadata: { name: "c1", attempt: 4 } } },
      /^ContainerStatus: status\.metadata\.attempt is 4, was 1 on the recorded node/,
    ],
    ["another log file", { status: { log_path: "/x" } }, /status\.log_path is "\/x"/],
    ["a start that is missing", { status: { started_at: "0" } }, /status\.started_at/],
    [
      "another sandbox",
      { listed: { pod_sandbox_id: idOf("f") } },
      /^ListContainers: .*_id is "f0+", was "a0+"/,
    ],
    ["a label that is lost", { listed: { labels: {} } }, /labels\[app\] is null, was "web"/],
  ] as const)
    test(`finds ${what}`, () => {
      const { problems } = compare(answers, now);
      assert.equal(problems.length, 1, JSON.stringify(problems));
      assert.equal(problems[0]?.subject, containerSubject);
      assert.match(problems[0].text, text);
    });

  test("expects no labels of images, and nothing in which the programs differ on purpose", () => {
    const ofImage = { ...listed, labels: { ...labels, maintainer: "a" } };
    assert.deepEqual(compare({ listed: ofImage }, { listed: { labels: ofRehearsal } }).problems, []);
    // cri-dockerd has no such field.
    assert.deepEqual(compare(answers, { status: { stop_signal: 15 } }).problems, []);
  });

  test("counts containers that had ended, and does not compare them", () => {
    const exited = { status: { status: { ...said(recordedContainer), state: 2, exit_code: 1 } } };
    const { ended, problems } = compare(exited);
    assert.deepEqual([ended, problems], [1, []]);
  });
});

describe("checkCheckpoints()", () => {
  const file = (flavour: "dockershim" | "criDockerd", name: string): Uint8Array =>
    encodeCheckpoint({ version: "v1", name, namespace: "default", data: {} }, flavour);
  for (const [what, bytes, text] of [
    ["nothing in a file of the right program", file("dockershim", "web"), undefined],
    ["the checksum of another program", file("criDockerd", "web"), /of cri-dockerd, not of dockershim/],
    ["another pod", file("dockershim", "db"), /is that of default\/db/],
    ["a corrupt file", new TextEncoder().encode("{"), /is corrupt: /],
    ["a missing file", undefined, /is missing/],
  ] as const)
    test(`finds ${what}`, async (t) => {
      const directory = await mkdtemp(join(tmpdir(), "dockershim-checkpoints-"));
      t.after(() => rm(directory, { recursive: true }));
      if (bytes !== undefined) await writeFile(join(directory, podId), bytes);
      const expected = { id: podId, subject: podSubject, namespace: "default", name: "web" };
      const problems = await checkCheckpoints(directory, [{ ...expected, flavour: "dockershim" }]);
      assert.equal(problems.length, text === undefined ? 0 : 1);
      if (text !== undefined) assert.match(problems[0]?.text ?? "", text);
    });
});

describe("what recorded pods are made of on a scratch host", () => {
  const node: LegacyNode = {
    ...{ program: "cri-dockerd", cgroupDriver: "cgroupfs", pauseImage: "p", networkMode: "none" },
  };
  const made = (host: object) =>
    onScratch({ Image: "evil", Entrypoint: ["/bin/sh"], HostConfig: host } as never, node, "/tmp/r");

  test("no image, command, host path, device, CPU set, OOM score or cgroup of the recorded node", () => {
    const paths = { Binds: ["/:/host"], Devices: [{}], CgroupParent: "/x", CpusetCpus: "0-95" };
    // Not every host may lower scores.
    assert.deepEqual(made({ ...paths, OomScoreAdj: -998, Memory: 5 }), {
      ...{ Image: "p", Labels: { "dockershim.rehearsal": "/tmp/r" } },
      HostConfig: { Memory: 5, SecurityOpt: [] },
    });
  });

  test("no namespace of a container that the rehearsal did not make", () => {
    for (const [mode, expected] of [
      ["container:made", "container:made"],
      ["container:other", undefined],
      ["host", "host"],
    ] as const)
      assert.equal(made({ IpcMode: "container:made", PidMode: mode }).HostConfig.PidMode, expected);
  });
});

test("only containers of rehearsals are found again, and no others with their label", async () => {
  const made = "/tmp/dockershim-rehearsal-a1";
  const listed = [made, made, "/etc", "x", "/a/../dockershim-rehearsal-b"].map((value) => ({
    labels: { "dockershim.rehearsal": value },
  }));
  const engine = { listContainers: () => Promise.resolve(listed) };
  assert.deepEqual(await directoriesOfMade(engine as never, signal), [made]);
});

describe("checkByLegacyRules()", () => {
  const named = (name: string) => sandboxSnapshot(podId, { name });
  const untyped = sandboxSnapshot(podId, { labels: { "io.kubernetes.docker.type": "" } });
  for (const [what, snapshot, text] of [
    ["nothing in a name of six fields", named("k8s_POD_web_default_uid-1_0"), undefined],
    ["nothing in a name of seven fields", named("k8s_POD_web_default_uid-1_0_0000beef"), undefined],
    ["a name of eight fields", named("k8s_POD_w_d_u_0_escaped_0000beef"), /parsed/],
    ["a name without an attempt", named("k8s_POD_w_d_u_x"), /parsed/],
    ["a container without a type", untyped, /type/],
    ["a container that is gone", undefined, /is gone/],
  ] as const)
    test(`finds ${what}`, async () => {
      const engine = { inspectContainer: () => Promise.resolve(snapshot) };
      const problems = await checkByLegacyRules([podId], engine as never, signal);
      if (text === undefined) assert.deepEqual(problems, []);
      else assert.match(problems[0]?.text ?? "", text);
    });
});

describe("whileRelisting()", () => {
  for (const [what, second, expected] of [
    ["nothing in lists that have the pod", right.ListPodSandbox, []],
    ["one list that misses the pod", { items: [] }, [`${podSubject}: a list missed it`]],
    [
      "one list with a pod that is not ready",
      { items: [{ id: podId, state: 1 }] },
      [`${podSubject}: a list had it with the state 1`],
    ],
    ["one list that fails", new Error("no link"), ["rehearsal: a list failed: no link"]],
  ] as const)
    test(`finds ${what}, also when later ones are right`, async () => {
      let lists = 0;
      let third = (): void => undefined;
      const listed = new Promise<void>((resolve) => {
        third = resolve;
      });
      const cri = calling((name) => {
        if (name === "ListContainers") return Promise.resolve({ containers: [] });
        lists += 1;
        if (lists === 3) third();
        if (lists !== 2) return Promise.resolve(right.ListPodSandbox);
        return second instanceof Error ? Promise.reject(second) : Promise.resolve(second);
      });
      const work = (): Promise<string> => listed.then(() => "done");
      const { result, relisting } = await whileRelisting([withoutContainers], cri, signal, work);
      assert.equal(result, "done");
      const problems = relisting.problems.map(({ subject, text }) => `${subject}: ${text}`);
      assert.deepEqual(problems, expected);
    });
});

test("removePods() goes on after a pod that cannot be removed", async () => {
  const called: string[] = [];
  const cri = calling((name, { pod_sandbox_id: id }) => {
    called.push(`${name} ${id}`);
    return id === "a" ? Promise.reject(new Error("busy")) : Promise.resolve({});
  });
  const problems = await removePods(cri, ["a", "b"], signal);
  assert.deepEqual(problems, [{ subject: "sandbox a", text: "its removal failed: busy" }]);
  assert.deepEqual(called, ["StopPodSandbox a", "StopPodSandbox b", "RemovePodSandbox b"]);
});

test("findLeft() finds containers, checkpoints and what the network plugin left", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "dockershim-left-"));
  t.after(() => rm(directory, { recursive: true }));
  const engine = (...ids: readonly string[]) => ({
    listContainers: () => Promise.resolve(ids.map((id) => ({ id }))) as never,
  });
  const networks = { whatIsLeft: () => Promise.resolve(["the link veth1"]) };
  const [path, other] = [join(directory, "abc"), join(directory, "def")];
  const looked = { directory, directories: [directory], kept: [other] };
  await writeFile(other, "");
  assert.deepEqual(await findLeft(engine(), { ...looked, networks: undefined }, signal), []);
  await writeFile(path, "");
  const found = await findLeft(engine("c"), { ...looked, networks }, signal);
  assert.deepEqual(
    found.map(({ text }) => text),
    ["container c was not removed with its pod", `the checkpoint ${path} is left`, "the link veth1 is left"],
  );
});

test("verdictPage() shows findings at their step, wraps, and prints no character that a terminal acts on", () => {
  const long = "word ".repeat(60).trim();
  const page = verdictPage({
    ...{ recording: "r", as: "dockershim", pods: 1, containers: 0, notes: ["a note", long] },
    steps: [
      { name: "make", did: "made" },
      { name: "switch", did: "asked" },
      { name: "new", did: long },
    ],
    findings: [{ step: "switch", subject: "pod a/\u001b[2J", text: "is gone" }],
  });
  assert.match(page, /ok {7}make {4}made\nFINDING {2}switch {2}asked\n {9}pod a\/\\u\{1b\}\[2J: is gone/);
  assert.match(page, /- a note/);
  assert.ok(page.split("\n").every((line) => line.length <= 100));
  assert.match(page, /Verdict: 1 findings\./);
});
