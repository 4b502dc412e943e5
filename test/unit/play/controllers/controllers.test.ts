import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { decideCronJob } from "../../../../src/play/controllers/cron-jobs.js";
import { lastDue, parseSchedule, schedule } from "../../../../src/play/manifests/cron-schedule.js";
import { jobPod } from "../../../../src/play/controllers/job-runner.js";
import { type JobPod, decideJob } from "../../../../src/play/controllers/jobs.js";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { shownPod } from "../view/shown-pod.js";
import type { FailureAction } from "../../../../src/play/manifests/workload-schema.js";
import type { CronJob, Job } from "../../../../src/play/manifests/workloads.js";

async function job(spec: string, policy = "Never", names = "c"): Promise<Job> {
  const containers = names.split(", ").map((name) => `{name: ${name}, image: x}`);
  const pod = `{restartPolicy: ${policy}, containers: [${containers.join(", ")}]}`;
  const text = `apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {${spec}template: {spec: ${pod}}}`;
  const [found] = (await readWorkloads([{ name: "f", text }])).jobs;
  return found ?? assert.fail();
}

const phases = { P: "Pending", R: "Running", S: "Succeeded", F: "Failed" } as const;
/** `RS` is a running pod and one that has succeeded. Pods that have ended did so at 0 s. */
const pods = (letters: string, indexed = false): readonly JobPod[] =>
  Array.from(letters, (letter, number) => {
    const phase = phases[letter as keyof typeof phases];
    const ended = phase === "Succeeded" || phase === "Failed" ? { finishedAt: 0 } : {};
    const place = indexed ? { index: number, attempt: 0 } : { attempt: number };
    return { name: `j-${number}`, phase, restarts: 0, ...place, ...ended };
  });

describe("decideJob()", () => {
  const late = { startedAt: 0, now: 1_000_000 };
  const cases: readonly (readonly [string, string, string, string, readonly number[]])[] = [
    ["makes one pod", "", "", "running", [0]],
    ["makes as many as may run at a time", "completions: 5, parallelism: 2, ", "", "running", [0, 1]],
    ["makes the next when one has ended", "completions: 5, parallelism: 2, ", "SR", "running", [2]],
    ["makes no more than are missing", "completions: 3, parallelism: 3, ", "SS", "running", [2]],
    ["is complete with its completions", "completions: 2, ", "SS", "complete", []],
    ["makes another for one that failed", "", "F", "running", [1]],
    ["fails beyond its backoffLimit", "backoffLimit: 1, ", "FF", "failed", []],
    ["adds no pod to a queue with a success", "parallelism: 3, ", "SR", "running", []],
    ["is complete when a queue has ended", "parallelism: 3, ", "SF", "complete", []],
    ["fails beyond it, also after a success", "parallelism: 2, backoffLimit: 0, ", "SF", "failed", []],
    ["is complete also when it is suspended later", "suspend: true, ", "S", "complete", []],
    ["does nothing while suspended", "suspend: true, ", "", "suspended", []],
  ];
  for (const [what, spec, letters, state, attempts] of cases)
    test(what, async () => {
      const decision = decideJob(await job(spec), pods(letters), late);
      assert.equal(decision.state, state);
      const found = decision.make.map(({ attempt }) => attempt);
      assert.deepEqual(found, attempts);
    });

  test("waits 10 s after a failure, doubled with each", async () => {
    const twice = await job("");
    for (const [letters, wakeAt] of [
      ["F", 10_000],
      ["FF", 20_000],
      ["FFFFFF", 320_000],
    ] as const) {
      const decision = decideJob(twice, pods(letters), { startedAt: 0, now: 9_999 });
      assert.deepEqual([decision.make, decision.wakeAt], [[], wakeAt]);
    }
  });

  test("fails at its deadline, and removes what runs", async () => {
    const limited = await job("activeDeadlineSeconds: 5, ");
    assert.equal(decideJob(limited, pods("R"), { startedAt: 0, now: 4_999 }).wakeAt, 5_000);
    const { reason, remove } = decideJob(limited, pods("R"), { startedAt: 0, now: 5_000 });
    assert.deepEqual([reason, remove], ["DeadlineExceeded", ["j-0"]]);
  });

  test("makes each index once, and again when it failed", async () => {
    const indexed = await job("completions: 3, parallelism: 3, completionMode: Indexed, ");
    assert.deepEqual(decideJob(indexed, pods("SF", true), late).make, [
      { index: 1, attempt: 1 },
      { index: 2, attempt: 0 },
    ]);
  });

  test("fails with failed indexes after the others have ended", async () => {
    const indexed = await job("completions: 2, completionMode: Indexed, backoffLimitPerIndex: 0, ");
    assert.deepEqual(decideJob(indexed, pods("F", true), late).make, [{ index: 1, attempt: 0 }]);
    assert.equal(decideJob(indexed, pods("FS", true), late).reason, "FailedIndexes");
  });

  const policy = "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [1]}}]}, ";
  const failing = (letters: string, ...actions: readonly FailureAction[]): readonly JobPod[] =>
    pods(letters, true).map((pod, at) => ({ ...pod, action: actions[at] }));

  test("does not count what the podFailurePolicy ignores, and makes another", async () => {
    const ignoring = await job(`backoffLimit: 0, ${policy}`);
    const [first] = pods("F");
    const ignored = [{ ...(first ?? assert.fail()), action: "Ignore" } as const];
    assert.deepEqual(decideJob(ignoring, ignored, late).make, [{ attempt: 1 }]);
    assert.equal(decideJob(ignoring, pods("F"), late).reason, "BackoffLimitExceeded");
    // The back-off is that of two failures.
    const twice = [...ignored, { ...(pods("FF")[1] ?? assert.fail()), action: "Ignore" } as const];
    assert.equal(decideJob(ignoring, twice, { startedAt: 0, now: 1 }).wakeAt, 20_000);
  });

  test("fails at once by FailJob, also with a success, and removes what runs", async () => {
    const indexed = await job("completions: 3, parallelism: 3, completionMode: Indexed, ");
    const { state, reason, remove } = decideJob(indexed, failing("SFR", "Count", "FailJob"), late);
    assert.deepEqual([state, reason, remove], ["failed", "PodFailurePolicy", ["j-2"]]);
  });

  test("gives up an index by FailIndex, before its limit, and not by what is ignored", async () => {
    const indexed = await job("completions: 2, completionMode: Indexed, backoffLimitPerIndex: 1, ");
    assert.deepEqual(decideJob(indexed, failing("F", "FailIndex"), late).make, [{ index: 1, attempt: 0 }]);
    const ignored = failing("FS", "Ignore").flatMap((pod) => [pod, { ...pod, attempt: 1 }]);
    assert.deepEqual(decideJob(indexed, ignored, late).make, [{ index: 0, attempt: 2 }]);
  });

  test("counts the restarts of OnFailure", async () => {
    const restarting = await job("backoffLimit: 2, ", "OnFailure");
    const running = pods("R").map((pod) => ({ ...pod, restarts: 2 }));
    assert.equal(decideJob(restarting, running, late).reason, "BackoffLimitExceeded");
  });
});

describe("schedules", () => {
  const minute = Date.UTC(2024, 1, 29, 13, 30); // A Thursday.
  for (const [text, expected] of [
    ["* * * * *", true],
    ["30 13 29 feb thu", true],
    ["*/15 8-17 * * mon-fri", true],
    ["*/20 * * * *", false],
    ["30 13 1 * thu", true],
    ["30 13 1 * *", false],
    ["10/20 * * * *", true],
    ["@hourly", false],
    ["@every 30m", true],
  ] as const)
    test(`${text} is ${expected ? "" : "not "}due on Thursday, 29 February 2024, 13:30`, () =>
      assert.equal(parseSchedule(text, "UTC").matches(minute), expected));

  test("follow their time zone, and are refused when they are none", () => {
    assert.ok(parseSchedule("30 14 * * *", "Europe/Berlin").matches(minute));
    const refused = "|* * * *|60 * * * *|5-1 * * * *|*/0 * * * *|* * * * 8|TZ=UTC * * * * *|@every 90s";
    for (const text of refused.split("|")) assert.notEqual(schedule(text), undefined, text);
  });

  test("lastDue() finds the latest of several", () => {
    const daily = parseSchedule("30 13 * * *", "UTC");
    assert.equal(lastDue(daily, minute - 3 * 86_400_000, minute + 5_000), minute);
    assert.equal(lastDue(daily, minute, minute + 5_000), undefined);
  });
});

describe("decideCronJob()", () => {
  const every = parseSchedule("* * * * *", "UTC");
  const cron = async (fields: Partial<CronJob>): Promise<CronJob> => ({
    ...{ source: "f", namespace: "default", name: "c", schedule: "* * * * *", timeZone: undefined },
    ...{ concurrencyPolicy: "Allow", startingDeadlineSeconds: undefined, isSuspended: false },
    ...{ successfulJobsHistoryLimit: 1, failedJobsHistoryLimit: 1, job: await job("") },
    ...fields,
  });
  const memory = { checkedUntil: 60_000 };
  const forbid = { concurrencyPolicy: "Forbid" } as const;
  const replace = { concurrencyPolicy: "Replace" } as const;
  const running = [{ name: "c-1", state: "running", dueAt: 60_000 }] as const;

  type Decided = ReturnType<typeof decideCronJob>;
  const ended = [1, 2, 3].map((n) => ({ name: `c-${n}`, state: "complete", dueAt: n }) as const);
  const suspended = [{ ...running[0], state: "suspended" }] as const;
  const cases: readonly (readonly [
    string,
    Partial<CronJob>,
    Parameters<typeof decideCronJob>[2],
    number,
    (decided: Decided) => unknown,
    unknown,
  ])[] = [
    ["names a job after its minute", {}, [], 125_000, (to) => [to.start?.name, to.wakeAt], ["c-2", 180_000]],
    ["waits for a running job with Forbid", forbid, running, 125_000, ({ start }) => start, undefined],
    ["waits for a suspended job with Forbid", forbid, suspended, 125_000, ({ start }) => start, undefined],
    ["removes a running job with Replace", replace, running, 125_000, ({ remove }) => remove, ["c-1"]],
    ["gives up a late start", { startingDeadlineSeconds: 4 }, [], 125_000, ({ start }) => start, undefined],
    ["removes ended jobs beyond the history", {}, ended, 60_001, ({ remove }) => remove, ["c-1", "c-2"]],
  ];
  for (const [what, fields, jobs, now, part, expected] of cases)
    test(what, async () => {
      assert.deepEqual(part(decideCronJob(await cron(fields), every, jobs, memory, now)), expected);
    });

  test("starts with Forbid once the running job is complete", async () => {
    const waiting = decideCronJob(await cron(forbid), every, running, memory, 125_000);
    const done = [{ ...running[0], state: "complete" }] as const;
    const { start } = decideCronJob(await cron(forbid), every, done, waiting.memory, 126_000);
    assert.equal(start?.name, "c-2");
  });

  test("starts nothing twice when the clock is set back", async () => {
    const started = decideCronJob(await cron({}), every, [], memory, 125_000);
    const back = decideCronJob(await cron({}), every, [], started.memory, 110_000);
    assert.equal(decideCronJob(await cron({}), every, [], back.memory, 120_001).start, undefined);
  });
});

const rules: readonly (readonly [string, string, string?])[] = [
  ["onExitCodes: {operator: In, values: [3]}", "a=3 b=0", "Count"],
  ["onExitCodes: {operator: In, values: [3]}", "a=4 b=0"],
  ["onExitCodes: {operator: NotIn, values: [3]}", "a=4 b=0", "Count"],
  ["onExitCodes: {operator: NotIn, values: [3]}", "a=3 b=0"],
  ["onExitCodes: {containerName: b, operator: In, values: [3]}", "a=3 b=1"],
  ["onExitCodes: {containerName: i, operator: In, values: [3]}", "i=3", "Count"],
  ["onPodConditions: [{type: DisruptionTarget}, {type: PodScheduled}]", "a=3 b=0", "Count"],
  ["onPodConditions: [{type: PodScheduled, status: 'False'}]", "a=3 b=0"],
  ["onExitCodes: {operator: In, values: [3]}", "a=0 b=0"],
];
for (const [rule, there, expected] of rules)
  test(`${rule} of a podFailurePolicy ${expected === undefined ? "leaves out" : "takes"} ${there}`, async () => {
    const lines = "  restartPolicy: Never\n  containers: [{name: a, image: x}, {name: b, image: x}]";
    const { status } = await shownPod(`${lines}\n  initContainers: [{name: i, image: x}]`, there);
    const spec = `podFailurePolicy: {rules: [{action: Count, ${rule}}, {action: Ignore, ${rule}}]}, `;
    const { failureRules } = await job(spec, "Never", "a, b, i");
    assert.equal(jobPod({ failureRules }, "j-0", { attempt: 0 }, status, 0).action, expected);
  });

test("jobPod() takes the time at which the end was seen when a container has none", async () => {
  const { status } = await shownPod("  containers: [{name: a, image: x}]", "");
  assert.ok(status);
  const failed = { ...status, phase: "Failed" } as const;
  assert.equal(jobPod({ failureRules: [] }, "j-0", { attempt: 0 }, failed, 5000).finishedAt, 5000);
});
