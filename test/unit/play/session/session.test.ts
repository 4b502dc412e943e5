import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { orAbort } from "../../../../src/lib/abort.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { nameOf } from "../../../../src/play/manifests/manifest.js";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import type { Workloads } from "../../../../src/play/manifests/workloads.js";
import { removePods } from "../../../../src/play/session/remove-pods.js";
import { Session } from "../../../../src/play/session/session.js";
import { turns, until } from "../../../fakes/turns.js";
import { type Fixture, makeFixture } from "../fake-cri.js";

const { signal } = new AbortController();
const options = { keep: false };

/** Applies the documents in the background, and lets the clock stand still afterwards. */
async function started(t: TestContext, text: string, prepare: (fixture: Fixture) => void = () => undefined) {
  const fixture = makeFixture();
  prepare(fixture);
  const session = new Session(fixture.deps);
  t.after(() => session[Symbol.asyncDispose]());
  await session.apply(await read(text), options, signal);
  await fixture.clock.advance(0);
  return { ...fixture, session };
}

const job = (fields = "", policy = "Never"): string =>
  `apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {${fields}template: {spec: ${podSpec(policy)}}}`;
const podSpec = (policy: string): string =>
  `{restartPolicy: ${policy}, terminationGracePeriodSeconds: 3, containers: [{name: c, image: "busybox:1"}]}`;

/** Whether the session has ended, and how. */
function endOf(session: Session): { answer?: boolean } {
  const end: { answer?: boolean } = {};
  void session.ended(signal).then((answer) => (end.answer = answer));
  return end;
}

const startsIn = ({ cri }: Pick<Fixture, "cri">): number =>
  cri.calls.filter((call) => call === "startContainer c").length;

test("a Job that has pods cannot change what a cluster does not let it change", async (t) => {
  const numbers = "completions: 2, parallelism: 1, ";
  const first = await started(t, job(numbers), ({ cri }) => cri.exits.set("c", 0));
  await first.session[Symbol.asyncDispose]();
  const { cri, deps } = first;
  const before = [...cri.calls];
  const again = async (text: string): Promise<Session> => {
    const session = new Session(deps);
    t.after(() => session[Symbol.asyncDispose]());
    await session.apply(await read(text), options, signal);
    return session;
  };
  const refused: readonly (readonly [string, string])[] = [
    [job("completions: 3, parallelism: 1, "), "spec.completions"],
    [job(`${numbers}completionMode: Indexed, `), "spec.completionMode"],
    [job(numbers).replace("busybox:1", "busybox:2"), "spec.template"],
    [
      job(
        `${numbers}podFailurePolicy: {rules: [{action: Count, onExitCodes: {operator: In, values: [1]}}]}, `,
      ),
      "spec.podFailurePolicy",
    ],
  ];
  for (const [text, field] of refused)
    await assert.rejects(again(text), {
      kind: "precondition",
      message:
        `nothing was started:\n  f.yaml, line 1: ${field}: Job default/j has pods, and cannot change; ` +
        "remove it first, by play --down",
    });
  assert.deepEqual(cri.calls, before);
  await again(job("completions: 2, parallelism: 2, backoffLimit: 1, "));
  assert.equal(startsIn({ cri }), 2);
});

test("a Job that has failed does not run again with a higher limit", async (t) => {
  const first = await started(t, job("backoffLimit: 0, "), ({ cri }) => cri.exits.set("c", 1));
  await first.session[Symbol.asyncDispose]();
  await using session = new Session(first.deps);
  await session.apply(await read(job("backoffLimit: 3, ")), options, signal);
  await first.clock.advance(60_000);
  assert.equal(startsIn(first), 1);
  assert.ok(first.reports.includes("default/j: job failed (BackoffLimitExceeded)"));
});

test("a job with more pods than its parallelism keeps those that have ended when it is played again", async (t) => {
  const text = job("completions: 4, parallelism: 2, completionMode: Indexed, ");
  const first = await started(t, text, ({ cri }) => cri.exits.set("c", 0));
  await first.clock.advance(0);
  assert.equal(startsIn(first), 4);
  await first.session[Symbol.asyncDispose]();
  const before = [...first.cri.calls];
  await using session = new Session(first.deps);
  await session.apply(await read(text), options, signal);
  await first.clock.advance(60_000);
  assert.equal(await session.ended(signal), true);
  assert.deepEqual(first.cri.calls, before);
});

test("a job that a CronJob has started keeps its numbers when those of the CronJob change", async (t) => {
  const first = await started(t, cronJob("suspend: false, "), ({ cri }) => cri.exits.set("c", 0));
  await first.clock.advance(60_000);
  await first.session[Symbol.asyncDispose]();
  const more = cronJob("suspend: true, ").replace("{spec: {template", "{spec: {completions: 2, template");
  await using session = new Session(first.deps);
  await session.apply(await read(more), options, signal);
  await first.clock.advance(60_000);
  assert.equal(startsIn(first), 1);
});

test("a pod of an ended job that cannot be removed is reported, and removed later", async (t) => {
  const { session, clock, cri, reports } = await started(t, job("activeDeadlineSeconds: 20, "));
  const end = endOf(session);
  const name = cri.sandboxes[0]?.config.metadata?.name ?? "";
  cri.failOn = `removePodSandbox ${name}`;
  await clock.advance(20_000);
  assert.equal(end.answer, undefined);
  assert.match(reports.join("\n"), /default\/j-0: cannot be removed, trying again: it broke/);
  cri.failOn = "";
  await clock.advance(10_000);
  assert.deepEqual(cri.sandboxes, []);
  assert.equal(end.answer, false);
});

const cronJob = (fields = ""): string =>
  `apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: k}\n` +
  `spec: {schedule: "* * * * *", ${fields}jobTemplate: {spec: {template: {spec: ${podSpec("Never")}}}}}`;

test("a cron job starts a job each minute and keeps the last ones", async (t) => {
  const { session, clock, cri } = await started(t, cronJob("successfulJobsHistoryLimit: 1, "), ({ cri }) =>
    cri.exits.set("c", 0),
  );
  await clock.advance(5 * 60_000);
  assert.equal(startsIn({ cri }), 5);
  await clock.advance(60_000);
  // Not only at the next minute.
  assert.equal(cri.sandboxes.length, 1);
  assert.equal(session.manifests.length, cri.sandboxes.length);
});

test("a job of a cron job that cannot be removed ends nothing", async (t) => {
  const { clock, cri, reports } = await started(t, cronJob("successfulJobsHistoryLimit: 0, "), ({ cri }) =>
    cri.exits.set("c", 0),
  );
  const stuck = `k-${Math.floor(clock.now() / 60_000) + 1}-0`;
  cri.failOn = `removePodSandbox ${stuck}`;
  await clock.advance(60_000);
  await clock.advance(60_000);
  assert.match(reports.join("\n"), /it broke/);
  assert.equal(startsIn({ cri }), 2);
  cri.failOn = "";
  await clock.advance(60_000);
  assert.ok(!cri.sandboxes.some(({ config }) => config.metadata?.name === stuck));
});

for (const how of ["apply", "update"] as const)
  test(`${how}() of a cron job takes up what an earlier play has started, as it is`, async () => {
    const { cri, clock, deps } = makeFixture();
    {
      await using first = new Session({ ...deps, playId: "first" });
      await first.apply(await read(cronJob("concurrencyPolicy: Forbid, ")), options, signal);
      await clock.advance(60_000);
      assert.equal(startsIn({ cri }), 1);
    }
    await using next = new Session({ ...deps, playId: "next" });
    const changed = cronJob("concurrencyPolicy: Forbid, ").replace("busybox:1", "busybox:2");
    if (how === "apply") await next.apply(await read(changed), options, signal);
    else await next.update(await read(changed), { obsolete: "leave" }, signal);
    await clock.advance(2 * 60_000);
    assert.equal(startsIn({ cri }), 1, "neither a second job, nor the first one again");
    const [first = "", ...others] = sandboxNames({ cri });
    assert.deepEqual(others, []);
    cri.end("c", 1);
    await clock.advance(10_000);
    const second = first.replace(/-0$/, "-1");
    assert.deepEqual(sandboxNames({ cri }), [first, second], "its failed pod is replaced");
  });

test("a cron job counts ended jobs of earlier plays among those that it keeps", async () => {
  const { cri, clock, deps } = makeFixture();
  cri.exits.set("c", 0);
  const workloads = await read(cronJob("successfulJobsHistoryLimit: 1, "), pod("k-x"));
  for (const playId of ["first", "second", "third"]) {
    await using session = new Session({ ...deps, playId });
    await session.apply(workloads, options, signal);
    await clock.advance(2 * 60_000);
  }
  const jobs = sandboxNames({ cri }).filter((name) => name !== "k-x");
  assert.ok(jobs.length <= 2, `${jobs.join(", ")} are left`);
});

test("a suspended cron job runs no job, with or without a schedule", async (t) => {
  for (const schedule of [true, false]) {
    const { cri, clock, deps, reports } = makeFixture();
    const session = new Session(deps);
    t.after(() => session[Symbol.asyncDispose]());
    const files = [{ name: "f.yaml", text: cronJob("suspend: true, ") }];
    const workloads = await readWorkloads(files, { schedule });
    assert.deepEqual(workloads.notices, []);
    await session.apply(workloads, options, signal);
    await clock.advance(60_000);
    assert.deepEqual(cri.sandboxes, []);
    assert.deepEqual(reports, []);
  }
});

test("no pod starts after another one has failed the first application", async () => {
  const fixture = makeFixture();
  const { cri, deps, clock } = fixture;
  const text = [pod("bad"), pod("slow")].join("\n---\n");
  const workloads = await readWorkloads([{ name: "f.yaml", text }], {});
  cri.failOn = "startContainer c-bad";
  // The look at the second pod is answered while the first one is being removed.
  const list = cri.listPodSandboxes.bind(cri);
  let answer = (): void => undefined;
  const removing = new Promise<void>((resolve) => (answer = resolve));
  cri.listPodSandboxes = async (labels, limit = signal) => {
    if (labels["io.kubernetes.pod.name"] === "slow") await orAbort(removing, limit);
    return list(labels);
  };
  const stop = cri.stopPodSandbox.bind(cri);
  cri.stopPodSandbox = async (id) => {
    answer();
    await turns(20);
    await stop(id);
  };
  await using session = new Session(deps);
  await assert.rejects(session.apply(workloads, options, signal), /it broke/);
  await clock.advance(0);
  assert.deepEqual(cri.sandboxes, []);
  assert.ok(!cri.calls.includes("runPodSandbox slow"));
});

test("ready() names the job that has failed", async (t) => {
  const { session } = await started(t, job("backoffLimit: 0, "), ({ cri }) => cri.exits.set("c", 1));
  await assert.rejects(session.ready(signal), (error: ShimError) => {
    assert.equal(error.kind, "precondition");
    return /job "default\/j" has failed/.test(error.message);
  });
});

const pod = (name: string, fields = ""): string =>
  `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}}\nspec: {${fields}containers: [{name: c-${name}, image: "busybox:1"}]}`;
const statefulSet = (probe: string): string => `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  replicas: 2
  serviceName: s
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: "busybox:1", readinessProbe: {${probe}}}]}`;
const all = (...texts: readonly string[]): string => texts.join("\n---\n");
const read = (...texts: readonly string[]): Promise<Workloads> =>
  readWorkloads([{ name: "f.yaml", text: all(...texts) }], { schedule: true });
const sandboxNames = ({ cri }: Pick<Fixture, "cri">): string[] =>
  cri.sandboxes.map(({ config }) => config.metadata?.name ?? "").sort();

test("a pod of a stateful set is made when the one before it is ready", async (t) => {
  const { session, clock, cri } = await started(
    t,
    statefulSet("initialDelaySeconds: 5, exec: {command: [a]}"),
  );
  assert.deepEqual(sandboxNames({ cri }), ["s-0"]);
  assert.deepEqual(session.unready(), ["default/s-0", "default/s-1"]);
  assert.deepEqual(session.waiting.map(nameOf), ["default/s-1"]);
  await clock.advance(15_000);
  assert.deepEqual(sandboxNames({ cri }), ["s-0", "s-1"]);
  assert.deepEqual(session.waiting, []);
  const end = endOf(session);
  await clock.advance(0);
  assert.equal(end.answer, undefined);
});

for (const how of ["apply", "update"] as const)
  test(`${how}() keeps a pod of a stateful set that is up at once, also when the one before it is not ready`, async () => {
    const { cri, clock, deps, handlers } = makeFixture();
    const workloads = await read(statefulSet("initialDelaySeconds: 5, exec: {command: [a]}"));
    {
      await using first = new Session({ ...deps, playId: "first" });
      await first.apply(workloads, options, signal);
      await clock.advance(15_000);
      assert.deepEqual(sandboxNames({ cri }), ["s-0", "s-1"]);
    }
    handlers.outcomes.set("c readiness", ["failure"]);
    await using next = new Session({ ...deps, playId: "next" });
    if (how === "apply") await next.apply(workloads, options, signal);
    else await next.update(workloads, { obsolete: "leave" }, signal);
    await clock.advance(0);
    const names = next.kubelet.pods.map(({ manifest }) => manifest.key.name);
    assert.deepEqual(names, ["s-0", "s-1"]);
    assert.equal(sandboxNames({ cri }).length, 2);
  });

test("the first application keeps what it has made when the user does not wait any longer", async () => {
  const { cri, deps, reports } = makeFixture();
  const limit = new AbortController();
  cri.startContainer = async (_: string, call?: AbortSignal) => {
    limit.abort(new ShimError("timeout", "wait until all are ready: 1 s are over"));
    await orAbort(new Promise(() => undefined), call ?? signal);
  };
  await using session = new Session(deps);
  await assert.rejects(session.apply(await read(pod("a")), options, limit.signal), /1 s are over/);
  assert.deepEqual(sandboxNames({ cri }), ["a"]);
  assert.deepEqual(reports, []);
});

test("update() makes new pods, changes others, and removes those that are not asked for any more", async (t) => {
  const { session, cri, clock } = await started(t, all(pod("a"), pod("b")));
  cri.calls.length = 0;
  const changed = pod("b").replace("busybox:1", "busybox:2");
  cri.images.set("busybox:2", {});
  const update = session.update(await read(changed, pod("c")), { obsolete: "remove" }, signal);
  await clock.advance(0);
  await update;
  assert.deepEqual(sandboxNames({ cri }), ["b", "c"]);
  assert.ok(cri.calls.includes("createContainer c-b 1"));
  assert.ok(!cri.calls.includes("runPodSandbox b"));
});

test("update() leaves pods to another play", async (t) => {
  const { session, cri, clock, files } = await started(t, all(pod("a"), job("")));
  await session.update(await read(pod("d")), { obsolete: "leave" }, signal);
  await clock.advance(0);
  assert.deepEqual(sandboxNames({ cri }), ["a", "d", "j-0"]);
  cri.end("c-a", 1);
  cri.end("c", 1);
  await clock.advance(60_000);
  assert.deepEqual(cri.calls.filter((call) => call.startsWith("createContainer")).length, 3);
  assert.ok(files.paths.size > 0);
});

test("update() runs a changed job again, and no job that is the same", async () => {
  const { cri, deps, clock } = makeFixture();
  cri.exits.set("c", 0);
  await using session = new Session(deps);
  await session.apply(await read(job("")), options, signal);
  await clock.advance(0);
  await session.update(await read(`# moved\n${job("")}`), { obsolete: "remove" }, signal);
  await clock.advance(0);
  assert.equal(startsIn({ cri }), 1);
  await session.update(await read(job("completions: 2, ")), { obsolete: "remove" }, signal);
  await clock.advance(0);
  assert.equal(startsIn({ cri }), 3);
});

test("update() goes by the changed schedule of a cron job", async (t) => {
  const { session, clock, cri } = await started(t, cronJob(), ({ cri }) => cri.exits.set("c", 0));
  const hourly = cronJob().replace("* * * * *", "30 * * * *");
  await session.update(await read(hourly), { obsolete: "remove" }, signal);
  await clock.advance(10 * 60_000);
  assert.equal(startsIn({ cri }), 0);
  await session.update(await read(cronJob()), { obsolete: "remove" }, signal);
  await clock.advance(60_000);
  assert.equal(startsIn({ cri }), 1);
  await session.update(await read(pod("a")), { obsolete: "remove" }, signal);
  await clock.advance(10 * 60_000);
  assert.equal(startsIn({ cri }), 1);
  assert.deepEqual(sandboxNames({ cri }), ["a"]);
});

test("a job whose pod another play removes makes no other one, and the session ends", async (t) => {
  const { session, deps, clock, cri } = await started(t, job(""));
  const end = endOf(session);
  const [manifest] = session.manifests;
  assert.ok(manifest !== undefined);
  const removal = removePods([{ source: "", key: manifest.key }], deps, signal);
  await clock.advance(60_000);
  await removal;
  assert.deepEqual(sandboxNames({ cri }), []);
  assert.equal(startsIn({ cri }), 1);
  assert.equal(end.answer, true);
});

test("a cron job whose pod another play removes starts no other job", async (t) => {
  const { session, deps, clock, cri } = await started(t, cronJob());
  await clock.advance(60_000);
  const [manifest] = session.manifests;
  assert.ok(manifest !== undefined);
  const removal = removePods([{ source: "", key: manifest.key }], deps, signal);
  await clock.advance(10 * 60_000);
  await removal;
  assert.equal(startsIn({ cri }), 1);
});
test("a suspended job is told once and holds nothing up", async (t) => {
  const { session, clock, cri, reports } = await started(t, job("suspend: true, "));
  const end = endOf(session);
  await clock.advance(0);
  assert.equal(end.answer, true);
  await session.ready(signal);
  assert.deepEqual(cri.sandboxes, []);
  const found = reports.filter((line) => line.includes("default/j"));
  assert.deepEqual(found, ["default/j: job suspended"]);
});

test("a uid that a pod of another name has is refused before anything starts", async (t) => {
  const own = (name: string): string => pod(name).replace(`name: ${name}`, `name: ${name}, uid: u-1`);
  const { deps, cri } = await started(t, own("a"));
  await using second = new Session(deps);
  await assert.rejects(
    second.apply(await read(own("b"), own("c").replace("u-1", "u-2")), options, signal),
    /play pod "default\/b" \(f\.yaml.*: its uid "u-1" is that of pod "default\/a", which is on the node/,
  );
  assert.deepEqual(sandboxNames({ cri }), ["a"]);
});

test("strict groups are refused before anything starts where the CRI server cannot do them", async () => {
  const strict = "securityContext: {supplementalGroupsPolicy: Strict}, ";
  for (const text of [pod("a", strict), job().replace("{restartPolicy", `{${strict}restartPolicy`)]) {
    const { deps, cri } = makeFixture();
    await using session = new Session({ ...deps, features: { ...deps.features, strictGroups: false } });
    await assert.rejects(
      session.apply(await read(text), options, signal),
      /^ShimError: f\.yaml.*supplementalGroupsPolicy Strict: the CRI server cannot do it$/,
    );
    assert.deepEqual(cri.calls, []);
  }
});

test("a memory limit that the engine does not take is refused before anything starts, with its fields", async () => {
  const limits = "resources: {limits: {memory: 4Mi}}";
  const withLimits = podSpec("Never").replace("[{name: c,", `[{name: d, image: x}, {name: c, ${limits},`);
  const cases = [
    [job().replace(podSpec("Never"), withLimits), "spec.template.spec.containers[1].resources.limits.memory"],
    [pod("a", `${limits}, `), "spec.resources.limits.memory"],
  ] as const;
  for (const [text, field] of cases) {
    const { deps, cri } = makeFixture();
    const features = { ...deps.features, minimumMemoryBytes: 6n * 1024n ** 2n };
    await using session = new Session({ ...deps, features });
    await assert.rejects(session.apply(await read(text), options, signal), {
      kind: "unsupported",
      message: `nothing was started: the Docker Engine takes no limit below 6Mi:\n  f.yaml: ${field}`,
    });
    assert.deepEqual(cri.calls, []);
    await session.apply(await read(text.replace("4Mi", "6Mi")), options, signal);
  }
});

/** The file by which a play owns the pod. */
function ownerOf({ cri }: Pick<Fixture, "cri">, name: string): string {
  const found = cri.sandboxes.find(({ config }) => config.metadata?.name === name);
  return `/state/${found?.config.metadata?.uid ?? ""}/owner`;
}

test("kept() leaves out what another play has taken or removed, also before that is noticed", async (t) => {
  const texts = all(pod("a"), pod("b"), pod("d"), job(""), cronJob());
  const { session, cri, files } = await started(t, texts);
  const owned = ["default Pod/a", "default Pod/b", "default Pod/d", "default Job/j", "default CronJob/k"];
  assert.deepEqual(await session.kept(), new Set(owned));
  await files.replaceFile(ownerOf({ cri }, "b"), "play-2");
  await files.removeTree(ownerOf({ cri }, "d"));
  await files.replaceFile(ownerOf({ cri }, "j-0"), "play-2");
  assert.deepEqual(await session.kept(), new Set(["default Pod/a", "default CronJob/k"]));
  await session[Symbol.asyncDispose]();
  await files.replaceFile(ownerOf({ cri }, "a"), "play-2");
  assert.deepEqual(await session.kept(), new Set(["default CronJob/k"]));
});

test("update() takes a pod again that another play has taken unnoticed", async (t) => {
  const { session, cri, clock, files } = await started(t, pod("a"));
  await files.replaceFile(ownerOf({ cri }, "a"), "play-2");
  await session.update(await read(pod("a")), { obsolete: "leave" }, signal);
  await clock.advance(0);
  assert.equal(files.texts.get(ownerOf({ cri }, "a")), "play-1");
  assert.equal(session.hasLost, false);
});

test("update() removes no pod that another play has taken", async (t) => {
  const { session, cri, files } = await started(t, all(pod("a"), pod("b")));
  await files.replaceFile(ownerOf({ cri }, "a"), "play-2");
  await session.update(await read(pod("b")), { obsolete: "remove" }, signal);
  assert.deepEqual(sandboxNames({ cri }), ["a", "b"]);
});

test("update() starts a new job when the server answers again", async (t) => {
  const { session, cri, clock, reports } = await started(t, pod("a"));
  const list = cri.listPodSandboxes.bind(cri);
  cri.listPodSandboxes = () => Promise.reject(new ShimError("unavailable", "no server"));
  await session.update(await read(pod("a"), job("")), { obsolete: "remove" }, signal);
  await clock.advance(0);
  assert.match(reports.join("\n"), /default\/j: no server/);
  cri.listPodSandboxes = list;
  await clock.advance(10_000);
  assert.deepEqual(sandboxNames({ cri }), ["a", "j-0"]);
});

test("a stateful set whose first pod another play takes during the application makes no second one", async () => {
  const { cri, deps, clock, files } = makeFixture();
  await using session = new Session(deps);
  const start = cri.startContainer.bind(cri);
  cri.startContainer = async (id) => {
    if (id.includes("c-slow")) {
      await until("the first pod is ready", () => session.kubelet.pods[0]?.status?.phase === "Running");
      await session.kubelet.pods[0]?.applied;
      await files.replaceFile(ownerOf({ cri }, "s-0"), "play-2");
      session.kubelet.pods[0]?.wake();
      await until("it is given up", () => session.kubelet.pods[0]?.loss !== undefined);
    }
    await start(id);
  };
  await session.apply(await read(statefulSet("exec: {command: [a]}"), pod("slow")), options, signal);
  await clock.advance(60_000);
  assert.deepEqual(sandboxNames({ cri }), ["s-0", "slow"]);
  assert.deepEqual(session.unready(), []);
});
