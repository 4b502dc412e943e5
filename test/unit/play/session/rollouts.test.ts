import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ContainerState } from "../../../../src/domain/cri.js";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import type { Workloads } from "../../../../src/play/manifests/workloads.js";
import { removePods, removeSurplus } from "../../../../src/play/session/remove-pods.js";
import { Session } from "../../../../src/play/session/session.js";
import { type Fixture, makeFixture } from "../fake-cri.js";

const { signal } = new AbortController();

interface Fields {
  readonly name?: string;
  readonly kind?: string;
  readonly replicas?: number;
  /** Of the workload's spec. */
  readonly fields?: string;
  /** Of the pod. */
  readonly pod?: string;
  /** Of its container. */
  readonly container?: string;
  /** Of its readiness probe. */
  readonly times?: string;
}

/** A workload `name` whose only container has the name of its version. It is ready when its first probe succeeds. */
function textOf(version: string, given: Fields = {}): string {
  const { name = "d", kind = "Deployment", replicas = 3, fields = "", pod = "", container = "" } = given;
  const { times = "initialDelaySeconds: 5, periodSeconds: 5" } = given;
  const probe = `readinessProbe: {${times}, exec: {command: [a]}}`;
  return `{apiVersion: apps/v1, kind: ${kind}, metadata: {name: ${name}}, spec: {${kind === "DaemonSet" ? "" : `replicas: ${replicas}, `}
    ${fields} selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {${pod}
    terminationGracePeriodSeconds: 1, containers: [{name: ${version}, image: "busybox:1", ${container}${probe}}]}}}}`;
}
const workloadsOf = (version: string, fields?: Fields): Promise<Workloads> =>
  readWorkloads([{ name: "f.yaml", text: textOf(version, fields) }]);

/** Running containers, such as `d-0:v1`. */
function running({ cri }: Pick<Fixture, "cri">): string {
  const names = cri.containers
    .filter(({ state }) => state === ContainerState.CONTAINER_RUNNING)
    .map(({ sandboxId, config }) => {
      const pod = cri.sandboxes.find(({ id }) => id === sandboxId)?.config.metadata?.name ?? "?";
      return `${pod}:${config.metadata?.name ?? ""}`;
    });
  return names.sort().join(" ");
}

/** A play of version 1 that has ended, with all pods ready. */
async function played(fields: Fields = {}, milliseconds = 20_000): Promise<Fixture> {
  const fixture = makeFixture();
  await using session = new Session(fixture.deps);
  await session.apply(await workloadsOf("v1", fields), { keep: false }, signal);
  await fixture.clock.advance(milliseconds);
  assert.deepEqual(session.unready(), []);
  fixture.cri.calls.length = 0;
  return fixture;
}

let serial = 0;
async function playedAgain(t: TestContext, fixture: Fixture, version: string, fields?: Fields) {
  const session = new Session({ ...fixture.deps, playId: `again-${(serial += 1)}` });
  t.after(() => session[Symbol.asyncDispose]());
  await session.apply(await workloadsOf(version, fields), { keep: false }, signal);
  await fixture.clock.advance(0);
  return session;
}

/** Starts of pods and their ends, in order. */
const steps = ({ cri }: Pick<Fixture, "cri">): readonly string[] =>
  cri.calls.flatMap((call) => {
    const [, what = "", pod = ""] = /^(runPodSandbox|removePodSandbox) (.*)$/.exec(call) ?? [];
    return what === "" ? [] : [`${what.startsWith("run") ? "+" : "-"}${pod}`];
  });

const one = "strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}},";

test("a changed deployment has as many ready pods as before at any time, and its names at the end", async (t) => {
  const fixture = await played();
  const session = await playedAgain(t, fixture, "v2");
  assert.equal(running(fixture), "d-0:v1 d-1:v1 d-2:v1 d-surge-0:v2");
  assert.equal(session.unready().length, 3);
  await fixture.clock.advance(60_000);
  assert.deepEqual(steps(fixture), [
    "+d-surge-0",
    ...["-d-2", "+d-2", "-d-1", "+d-1", "-d-0", "+d-0"],
    "-d-surge-0",
  ]);
  assert.equal(running(fixture), "d-0:v2 d-1:v2 d-2:v2");
  assert.deepEqual(session.unready(), []);
  assert.deepEqual(fixture.reports, [
    "default/d: changed: 3 of 3 pods follow, at most 0 fewer at a time, 1 more meanwhile",
  ]);
});

test("a change leaves the pods of another workload that have the names of its additional ones", async (t) => {
  const other = { name: "d-surge", replicas: 1 };
  const fixture = await played({ fields: one });
  await playedAgain(t, fixture, "other", other);
  await fixture.clock.advance(20_000);
  const session = await playedAgain(t, fixture, "v1", { fields: one });
  assert.equal(running(fixture), "d-0:v1 d-1:v1 d-2:v1 d-surge-0:other", "nothing has changed");
  fixture.cri.calls.length = 0;
  const update = session.update(await workloadsOf("v2", { fields: one }), { obsolete: "remove" }, signal);
  await fixture.clock.advance(60_000);
  await update;
  assert.equal(running(fixture), "d-0:v2 d-1:v2 d-2:v2 d-surge-0:other");
  assert.deepEqual(steps(fixture), ["-d-2", "+d-2", "-d-1", "+d-1", "-d-0", "+d-0"]);
});

test("a change that never becomes ready stops, is told once, and a changed file goes on from there", async (t) => {
  const fixture = await played({ fields: one });
  const { handlers, clock, reports } = fixture;
  handlers.outcomes.set("v2 readiness", ["failure"]);
  const session = await playedAgain(t, fixture, "v2", { fields: `${one} progressDeadlineSeconds: 30,` });
  await clock.advance(200_000);
  assert.equal(running(fixture), "d-0:v1 d-1:v1 d-2:v1 d-surge-0:v2");
  const found = reports.filter((line) => line.includes("progressDeadlineSeconds"));
  assert.deepEqual(found, [
    "default/d: no progress for 30 s (progressDeadlineSeconds); not ready: default/d-surge-0; the pods of before run on",
  ]);
  const next = session.update(await workloadsOf("v3", { fields: one }), { obsolete: "remove" }, signal);
  await clock.advance(60_000);
  await next;
  assert.equal(running(fixture), "d-0:v3 d-1:v3 d-2:v3");
});

for (const how of ["apply", "update"] as const)
  test(`${how}() goes on where another play has ended in the middle, also with fewer replicas`, async (t) => {
    const fixture = await played({ fields: one });
    {
      await using first = new Session({ ...fixture.deps, playId: "first" });
      await first.apply(await workloadsOf("v2", { fields: one }), { keep: false }, signal);
      await fixture.clock.advance(0);
      assert.equal(running(fixture), "d-0:v1 d-1:v1 d-2:v1 d-surge-0:v2");
      await fixture.clock.advance(5_000);
    }
    assert.equal(running(fixture).match(/v1/g)?.length, 2);
    const fields = { fields: one, replicas: 2 };
    const session = new Session({ ...fixture.deps, playId: "next" });
    t.after(() => session[Symbol.asyncDispose]());
    const workloads = await workloadsOf("v2", fields);
    if (how === "apply") await session.apply(workloads, { keep: false }, signal);
    else await session.update(workloads, { obsolete: "leave" }, signal);
    await fixture.clock.advance(0);
    const texts = [{ name: "f.yaml", text: textOf("v2", fields) }];
    const surplus = removeSurplus(texts, workloads.pods, fixture.deps, signal);
    await fixture.clock.advance(60_000);
    assert.deepEqual(await surplus, { failed: 0 });
    assert.equal(running(fixture), "d-0:v2 d-1:v2");
    assert.deepEqual(session.unready(), []);
    assert.ok(!steps(fixture).includes("+d-surge-1"));
  });

test("pods whose probes need time to say again that they are ready do not count as broken", async (t) => {
  const fields = { fields: one, times: "periodSeconds: 20, successThreshold: 3" };
  const fixture = await played(fields, 60_000);
  await playedAgain(t, fixture, "v2", fields);
  await fixture.clock.advance(39_000);
  assert.equal(running(fixture), "d-0:v1 d-1:v1 d-2:v1 d-surge-0:v2");
  fixture.handlers.outcomes.set("v1 readiness", ["failure"]);
  await fixture.clock.advance(300_000);
  assert.equal(running(fixture), "d-0:v2 d-1:v2 d-2:v2");
});

test("a play from which another one takes the pods in the middle of a change changes nothing more", async (t) => {
  const fixture = await played({ fields: one });
  fixture.handlers.outcomes.set("v2 readiness", ["failure"]);
  await playedAgain(t, fixture, "v2", { fields: one });
  await playedAgain(t, fixture, "v3", { fields: one });
  await fixture.clock.advance(120_000);
  assert.equal(running(fixture), "d-0:v3 d-1:v3 d-2:v3");
  const before = fixture.cri.calls.length;
  await fixture.clock.advance(120_000);
  assert.equal(fixture.cri.calls.length, before);
});

test("a change ends when a pod of the workload is removed, which is said", async (t) => {
  const fixture = await played({ fields: one });
  fixture.handlers.outcomes.set("v2 readiness", ["failure"]);
  const session = await playedAgain(t, fixture, "v2", { fields: one });
  const [pod] = session.manifests;
  assert.equal(pod?.key.name, "d-0");
  const removal = removePods([pod], fixture.deps, signal);
  await fixture.clock.advance(120_000);
  assert.equal((await removal).failed, 0);
  assert.equal(running(fixture), "d-1:v1 d-2:v1 d-surge-0:v2");
  assert.ok(
    fixture.reports.includes("default/d: changes no further, because default/d-0 was removed; play again"),
    String(fixture.reports),
  );
});

test("without room for a pod beside the others, one lacks at a time, which is said", async (t) => {
  const onHost = { pod: "hostNetwork: true," };
  const fixture = await played(onHost);
  await playedAgain(t, fixture, "v2", onHost);
  assert.equal(running(fixture), "d-0:v1 d-1:v1 d-2:v2");
  await fixture.clock.advance(60_000);
  assert.equal(running(fixture), "d-0:v2 d-1:v2 d-2:v2");
  assert.deepEqual(fixture.reports, [
    "default/d: no pod can be made beside the others (maxSurge): all are on the network of this host",
    "default/d: changed: 3 of 3 pods follow, at most 1 fewer at a time",
  ]);
  const withPort = { replicas: 1, container: "ports: [{containerPort: 80, hostPort: 8080}], " };
  const other = await played(withPort);
  await playedAgain(t, other, "v2", withPort);
  assert.equal(running(other), "d-0:v2");
  assert.match(other.reports[0] ?? "", /\(maxSurge\): each wants port 8080\/TCP of this host$/);
});

test("minReadySeconds holds up the next pod", async (t) => {
  const fields = `${one} minReadySeconds: 30,`;
  const fixture = await played({ fields });
  await playedAgain(t, fixture, "v2", { fields });
  await fixture.clock.advance(29_000);
  assert.deepEqual(steps(fixture), ["+d-surge-0"]);
  await fixture.clock.advance(6_000);
  assert.deepEqual(steps(fixture), ["+d-surge-0", "-d-2", "+d-2"]);
});

for (const [fields, stay, says] of [
  [
    "updateStrategy: {rollingUpdate: {partition: 2}},",
    ["d-0:v1", "d-1:v1"],
    /d-0, default\/d-1 stay as they are \(partition 2\)$/m,
  ],
  [
    "updateStrategy: {type: OnDelete},",
    ["d-0:v1", "d-1:v1", "d-2:v1"],
    /\(updateStrategy OnDelete\); remove one with "pod down"/,
  ],
] as const)
  test(`pods that stay as they are go on so, which is said (${fields})`, async (t) => {
    const fixture = await played({ kind: "StatefulSet", fields });
    const session = await playedAgain(t, fixture, "v2", { kind: "StatefulSet", fields });
    await fixture.clock.advance(60_000);
    assert.deepEqual(running(fixture).split(" ").slice(0, stay.length), stay);
    assert.equal(steps(fixture).length, 2 * (3 - stay.length));
    assert.match(fixture.reports.join("\n"), says);
    assert.deepEqual(session.unready(), []);
  });
