import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { formatTable } from "../../../../src/play/view/format-table.js";
import { podRows, renderPlayedPods, summarizeNow } from "../../../../src/play/view/pod-table.js";
import { shownPod, withRestarts } from "./shown-pod.js";

const two = "  containers: [{name: a, image: x}, {name: b, image: x}]";
const init = `  initContainers: [{name: i, image: x}, {name: j, image: x}]\n${two}`;
const sidecar = `  initContainers: [{name: i, image: x, restartPolicy: Always}]\n${two}`;
const never = "\n  restartPolicy: Never";
const waiting = (reason: string) => ({ reason });

describe("summarizeNow() prints as kubectl does", () => {
  type Case = readonly [string, string, Readonly<Record<string, { reason: string }>>, string, string];
  const cases: readonly Case[] = [
    [two, "", {}, "ContainerCreating", "0/2"],
    [two, "a=running", {}, "ContainerCreating", "1/2"],
    [two, "a=running b=running", {}, "Running", "2/2"],
    [two, "a=running b=1", { b: waiting("CrashLoopBackOff") }, "CrashLoopBackOff", "1/2"],
    [two, "a=running", { b: waiting("ErrImagePull") }, "ErrImagePull", "1/2"],
    [two + never, "a=running b=0", {}, "NotReady", "1/2"],
    [two + never, "a=0 b=0", {}, "Completed", "0/2"],
    [two + never, "a=0 b=3", {}, "Completed", "0/2"],
    [two + never, "a=3 b=0", {}, "Error", "0/2"],
    [init, "", {}, "Init:0/2", "0/2"],
    [init, "i=running", {}, "Init:0/2", "0/2"],
    [init, "i=0", {}, "Init:1/2", "0/2"],
    [init, "i=0", { j: waiting("ErrImagePull") }, "Init:ErrImagePull", "0/2"],
    [init + never, "i=1", {}, "Init:Error", "0/2"],
    [init, "i=0 j=0", {}, "PodInitializing", "0/2"],
    [init, "i=0 j=0 a=running b=running", {}, "Running", "2/2"],
    [sidecar, "i=running a=running b=running", {}, "Running", "3/3"],
    [sidecar, "i=1 a=running b=running", {}, "Init:Error", "2/3"],
  ];
  for (const [spec, there, waits, status, ready] of cases)
    test(`${status} ${ready} for "${there}" ${JSON.stringify(waits)}`, async () => {
      const summary = summarizeNow(await shownPod(spec, there, { waiting: waits }));
      assert.equal(summary.status, status);
      assert.equal(`${summary.readyContainers}/${summary.containers}`, ready);
    });

  test("Terminating while it is deleted, but not when it has ended", async () => {
    const deletedAt = 5;
    const running = await shownPod(two, "a=running b=running");
    assert.equal(summarizeNow({ ...running, deletedAt }).status, "Terminating");
    const ended = await shownPod(two + never, "a=0 b=0");
    assert.notEqual(summarizeNow({ ...ended, deletedAt }).status, "Terminating");
  });

  test("Pending before the pod was looked at, and the reason of a pod that was too slow", async () => {
    const pod = await shownPod(two, "");
    assert.equal(summarizeNow({ ...pod, status: undefined }).status, "Pending");
    const late = await shownPod(`${two}\n  activeDeadlineSeconds: 1`, "a=running b=running", { now: 9000 });
    assert.equal(summarizeNow(late).status, "DeadlineExceeded");
  });

  test("restarts of init containers only until they have done their work", async () => {
    const before = withRestarts(await shownPod(init, "i=running"), "i", 2, 7000);
    assert.equal(summarizeNow(before).restarts, 2);
    const after = withRestarts(await shownPod(init, "i=0 j=0 a=running b=running"), "i", 2, 7000);
    assert.equal(summarizeNow(after).restarts, 0);
    const side = withRestarts(await shownPod(sidecar, "i=running a=running b=running"), "i", 2, 7000);
    assert.deepEqual([summarizeNow(side).restarts, summarizeNow(side).lastRestartAt], [2, 7000]);
  });
});

test("podRows() shows addresses, ports, restarts and the last event, escaped", async () => {
  const ports =
    "[{containerPort: 80}, {containerPort: 53, protocol: UDP, hostPort: 5353}, {containerPort: 1, hostPort: 2, hostIP: '::1'}]";
  const spec = `  containers: [{name: a, image: x, ports: ${ports}}, {name: b, image: x}]`;
  const observed = { ips: ["10.0.0.1", "fd00::1"] };
  const pod = withRestarts(await shownPod(spec, "a=running b=running", { observed }), "b", 2, 31_000);
  const lastEvent = {
    ...({ key: pod.manifest.key, at: 0, type: "Normal", reason: "Pulled" } as const),
    message: `got\n\u001B[2J${"x".repeat(90)}`,
  };
  const [, row = []] = podRows([{ ...pod, lastEvent }], 61_000);
  assert.deepEqual(row.slice(0, -1), [
    ...["default/web", "Running", "2/2", "2 (30s ago)", "10.0.0.1,fd00::1"],
    ...["80/TCP,5353->53/UDP,[::1]:2->1/TCP", "60s"],
  ]);
  assert.match(row.at(-1) ?? "", /^got \\u\{1b\}\[2Jx+…$/);
  assert.equal(row.at(-1)?.length, 60);
});

test("podRows() shows no failed readiness probe of a pod that is ready", async () => {
  for (const [there, expected] of [
    ["a=running", "is ready"],
    ["a=exited:1", "Readiness probe failed:"],
  ] as const) {
    const pod = await shownPod("  containers: [{name: a, image: x}]", there);
    const message = "Readiness probe failed:";
    const lastEvent = {
      key: pod.manifest.key,
      at: 0,
      type: "Warning",
      reason: "Unhealthy",
      message,
    } as const;
    assert.equal(podRows([{ ...pod, lastEvent }], 61_000)[1]?.at(-1), expected);
  }
});

describe("renderPlayedPods()", () => {
  const how = { now: 61_000, runtimeName: "docker" };

  test("as names that `dockershim pod` takes", async () => {
    assert.equal(await renderPlayedPods([await shownPod(two, "")], "name", how), "default/web\n");
  });

  test("as a List of Pods, in JSON and in YAML", async () => {
    const pod = await shownPod(init + never, "i=0 j=0 a=running b=3");
    const text = await renderPlayedPods([pod], "json", how);
    const yaml = await renderPlayedPods([pod], "yaml", how);
    assert.deepEqual(parse(yaml), JSON.parse(text));
    for (const expected of [
      /^apiVersion: v1\nkind: List\n/,
      /kind: Pod\n.*metadata:\n +name: web\n +namespace: default\n +uid: uid-1\n +creationTimestamp: "?1970-01-01T00:00:01Z/s,
      /phase: Running\n/,
      /podIP: 10\.1\.2\.3\n.*podIPs:\n +- ip: 10\.1\.2\.3\n/s,
      /qosClass: BestEffort\n/,
      /containerStatuses:.*containerID: docker:\/\/id-a\n.*running:\n +startedAt: .*exitCode: 3\n.*docker:\/\/id-b\n/s,
    ])
      assert.match(yaml, expected);
  });

  test("of a pod that was not looked at yet", async () => {
    const pod = { ...(await shownPod(two, "")), status: undefined, deletedAt: 1000 };
    const yaml = await renderPlayedPods([pod], "yaml", how);
    assert.match(yaml, /deletionTimestamp: "?1970-01-01T00:00:01Z.*phase: Pending\n/s);
  });

  test("wide, with uid, images and the whole event", async () => {
    const pod = await shownPod(two, "a=running b=running");
    const message = "m".repeat(80);
    const lastEvent = { key: pod.manifest.key, at: 0, type: "Normal", reason: "Pulled", message } as const;
    const text = await renderPlayedPods([{ ...pod, lastEvent }], "wide", how);
    assert.match(text, /UID +IMAGES +LAST EVENT\n/);
    assert.match(text, new RegExp(`uid-1 +x,x +${message}\n`));
  });
});

test("formatTable() aligns columns, also of wide characters, and leaves no blanks at line ends", () => {
  const rows = [
    ["A", "LONG", "C"],
    ["longer", "x", ""],
    ["字字", "x", ""],
  ];
  assert.equal(formatTable(rows), "A       LONG  C\nlonger  x\n字字    x\n");
});
