import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";
import { PodSandboxState } from "../../../../src/domain/cri.js";
import { ShimError } from "../../../../src/lib/errors.js";
import type { PodStatus } from "../../../../src/play/pod-rules/status-types.js";
import { Kubelet } from "../../../../src/play/kubelet/kubelet.js";
import { type Fixture, makeFixture, podWith } from "../fake-cri.js";

const image = "image: busybox:1";
const { signal } = new AbortController();
const withFields = (fields: string): string => `  containers: [{name: a, ${image}, ${fields}}]`;
const plain = `  containers: [{name: a, ${image}}]`;

/** Applies a pod and lets the clock stand still afterwards. */
async function start(t: TestContext, spec: string, prepare: (fixture: Fixture) => void = () => undefined) {
  const fixture = makeFixture();
  t.after(() => fixture.kubelet[Symbol.asyncDispose]());
  prepare(fixture);
  const worker = fixture.kubelet.apply(await podWith(spec), { failFast: false });
  await fixture.clock.advance(0);
  return { ...fixture, status: (): PodStatus => worker.status ?? assert.fail("no status") };
}

/** Reason of the wait, `running` or the exit code, and readiness of the first container. */
function stateOf({ containerStatuses: [first] }: PodStatus): string {
  const { state, ready, restartCount } = first ?? assert.fail("no container");
  const now = state.waiting?.reason ?? (state.running ? "running" : String(state.terminated?.exitCode));
  return `${now}${ready ? " ready" : ""} ${restartCount}`;
}

type Made = Fixture["cri"]["containers" | "sandboxes"][number];
const attemptsOf = (list: readonly Pick<Made, "config">[]) =>
  list.map(({ config }) => config.metadata?.attempt);
const starts = ({ cri }: Pick<Fixture, "cri">): number =>
  cri.calls.filter((call) => call === "startContainer a").length;

test("a container that fails is restarted at once, then after 10 s, 20 s … 300 s", async (t) => {
  const fixture = await start(t, plain, ({ cri }) => cri.exits.set("a", 1));
  const { clock, status } = fixture;
  assert.equal(starts(fixture), 2);
  assert.equal(stateOf(status()), "CrashLoopBackOff 1");
  assert.equal(status().phase, "Running");
  let count = 2;
  for (const seconds of [10, 20, 40, 80, 160, 300, 300]) {
    await clock.advance(seconds * 1000 - 1);
    assert.equal(starts(fixture), count, `before ${seconds} s`);
    await clock.advance(1);
    count += 1;
    assert.equal(starts(fixture), count, `after ${seconds} s`);
  }
});

for (const [direction, stepMs] of [
  ["back", -3_600_000],
  ["on", 3_600_000],
] as const)
  test(`a clock that is set ${direction} by an hour restarts nothing, and delays no restart`, async (t) => {
    const fixture = await start(
      t,
      withFields(`livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1}`),
      ({ cri }) => cri.exitsInTurn.set("a", [1, 1]),
    );
    const { cri, clock, status } = fixture;
    await clock.advance(10_000);
    assert.equal(stateOf(status()), "running ready 2");
    clock.step(stepMs);
    await clock.advance(120_000);
    assert.equal(stateOf(status()), "running ready 2");
    cri.end("a", 1);
    await clock.advance(20_000);
    assert.equal(stateOf(status()), "running ready 3");
    await clock.advance(120_000);
    assert.equal(stateOf(status()), "running ready 3");
  });

test("a container that has run for more than 10 minutes begins anew", async (t) => {
  const fixture = await start(t, plain, ({ cri }) => cri.exitsInTurn.set("a", [1, 1]));
  const { cri, clock, status } = fixture;
  await clock.advance(10_000);
  assert.equal(stateOf(status()), "running ready 2");
  await clock.advance(600_001);
  cri.end("a", 1);
  await clock.advance(0);
  assert.equal(stateOf(status()), "running ready 3");
});

test("the dead container before the last one is removed with its log", async (t) => {
  const { cri, files, clock } = await start(t, plain, ({ cri }) => cri.exitsInTurn.set("a", [1, 1]));
  await clock.advance(10_000);
  assert.deepEqual(attemptsOf(cri.containers), [1, 2]);
  assert.ok(files.calls.includes("removeTree /logs/default_web_uid-1/a/0.log"));
});

test("of containers that were created and could not be started, one is kept", async (t) => {
  const { cri, clock } = await start(t, plain, ({ cri }) => cri.refusedStarts.add("a"));
  for (let tries = 0; tries < 4; tries += 1) await clock.advance(10_000);
  assert.deepEqual(attemptsOf(cri.containers), [4, 5], "the dead one, and the one that was made since");
  cri.refusedStarts.clear();
  await clock.advance(10_000);
  assert.deepEqual(attemptsOf(cri.containers), [5, 6]);
});

for (const [fields, refusal, expected] of [
  [
    "command: [nope, -x], ",
    'exec: "nope": executable file not found in $PATH',
    /^start container "a": failed to start container "a": exec: .*; the command is "nope"$/,
  ],
  ["", "executable not found in $PATH", /; the command is that of image "busybox:1"$/],
  ["command: [nope], ", "cgroup is full", /^start container "a": .* container "a": cgroup is full$/],
] as const)
  test(`a start that fails with "${refusal}" names the container, and a program that is missing`, async (t) => {
    const { status } = await start(t, `  containers: [{name: a, ${fields}${image}}]`, ({ cri }) => {
      cri.startContainer = (id) =>
        Promise.reject(new ShimError("unknown", `failed to start container "${id}": ${refusal}`));
    });
    assert.match(status().containerStatuses[0]?.state.waiting?.message ?? "", expected);
  });

for (const hasStopSignals of [true, false])
  test(`a stop signal ${hasStopSignals ? "that the server knows is not told" : "that the server may not know is told"}`, async (t) => {
    const { events } = await start(
      t,
      `  os: {name: linux}\n  containers: [{name: a, ${image}, lifecycle: {stopSignal: SIGUSR1}}]`,
      ({ cri }) => (cri.hasStopSignals = hasStopSignals),
    );
    const told = events.filter(({ reason }) => reason === "StopSignalUnknown").map(({ message }) => message);
    const line = "the CRI server does not report whether it stops container a by SIGUSR1";
    assert.deepEqual(told, hasStopSignals ? [] : [line]);
  });

const probe = (kind: string, fields = ""): string =>
  withFields(`${kind}Probe: {exec: {command: [x]}${fields}}`);

test("an engine elsewhere that vanishes is not taken for a CRI server that does not answer", async (t) => {
  const fixture = await start(
    t,
    `  containers: [{name: a, ${image}}]\n  volumes: [{name: v}]`,
    ({ files }) => {
      files.prepareVolume = () => Promise.reject(new ShimError("unavailable", "use the engine at ssh://far"));
    },
  );
  const { clock, events, status } = fixture;
  Reflect.deleteProperty(fixture.files, "prepareVolume");
  await clock.advance(60_000);
  assert.equal(stateOf(status()), "running ready 0");
  const told = events.filter(({ reason }) => reason.startsWith("Server")).map(({ message }) => message);
  assert.deepEqual(told, [
    "the CRI server or its engine does not answer, retrying: create the sandbox: use the engine at ssh://far",
    "the CRI server and its engine are back",
  ]);
});

test("a readiness probe: ready after successThreshold successes, not ready after three failures", async (t) => {
  const { clock, status, handlers } = await start(
    t,
    probe("readiness", ", successThreshold: 2"),
    ({ handlers }) => handlers.outcomes.set("a readiness", ["failure", "success"]),
  );
  await clock.advance(19_999);
  assert.equal(stateOf(status()), "running 0");
  await clock.advance(1);
  assert.equal(stateOf(status()), "running ready 0");
  handlers.outcomes.set("a readiness", ["failure"]);
  await clock.advance(20_000);
  assert.equal(stateOf(status()), "running ready 0");
  await clock.advance(10_000);
  assert.equal(stateOf(status()), "running 0");
  assert.equal(status().conditions.find(({ type }) => type === "Ready")?.status, "False");
});

test("a liveness probe: three failures restart the container with the probe's grace period", async (t) => {
  const { cri, clock, status, handlers } = await start(
    t,
    probe("liveness", ", periodSeconds: 5, terminationGracePeriodSeconds: 7"),
    ({ handlers }) => handlers.outcomes.set("a liveness", ["failure"]),
  );
  assert.equal(stateOf(status()), "running ready 0");
  await clock.advance(9999);
  assert.ok(!cri.calls.some((call) => call.startsWith("stopContainer")));
  handlers.outcomes.set("a liveness", ["failure", "success"]);
  await clock.advance(1);
  assert.deepEqual(cri.calls.slice(-3), ["stopContainer a 7s", "createContainer a 1", "startContainer a"]);
  await clock.advance(60_000);
  assert.equal(stateOf(status()), "running ready 1");
});

test("initialDelaySeconds, and a result `unknown`, which counts for nothing", async (t) => {
  const { clock, handlers, status } = await start(
    t,
    probe("liveness", ", initialDelaySeconds: 30, periodSeconds: 1, failureThreshold: 2"),
    ({ handlers }) => handlers.outcomes.set("a liveness", ["failure", "unknown", "failure", "success"]),
  );
  await clock.advance(29_999);
  assert.deepEqual(handlers.calls, []);
  await clock.advance(1);
  assert.equal(handlers.calls.length, 1);
  await clock.advance(1000);
  assert.equal(stateOf(status()), "running ready 0");
  await clock.advance(1000);
  assert.equal(stateOf(status()), "running ready 1");
});

test("a startup probe holds the others back, and is not repeated once it has succeeded", async (t) => {
  const { clock, handlers, status } = await start(
    t,
    withFields(
      "startupProbe: {tcpSocket: {port: 1}, periodSeconds: 2}, readinessProbe: {tcpSocket: {port: 1}}",
    ),
    ({ handlers }) => handlers.outcomes.set("a startup", ["failure", "failure", "success"]),
  );
  await clock.advance(3999);
  assert.deepEqual(new Set(handlers.calls), new Set(["a startup"]));
  assert.equal(stateOf(status()), "running 0");
  await clock.advance(1);
  assert.equal(stateOf(status()), "running ready 0");
  await clock.advance(20_000);
  assert.equal(handlers.calls.filter((call) => call === "a startup").length, 3);
});

for (const [hookSeconds, grace] of [
  [4, 6],
  [9, 2],
  [60, 2],
] as const)
  test(`a preStop hook of ${hookSeconds} s leaves ${grace} s of a grace period of 10 s`, async (t) => {
    const { cri, clock, kubelet } = await start(
      t,
      `  terminationGracePeriodSeconds: 10\n  containers: [{name: a, ${image}, lifecycle: {preStop: {sleep: {seconds: 1}}}}]`,
      ({ handlers }) => handlers.hookMs.set("a preStop", hookSeconds * 1000),
    );
    const removal = kubelet.remove({ namespace: "default", name: "web" }, signal);
    await clock.advance(10_000);
    await removal;
    assert.deepEqual(cri.calls.slice(-3), [
      `stopContainer a ${grace}s`,
      "stopPodSandbox web",
      "removePodSandbox web",
    ]);
  });

test("activeDeadlineSeconds end the pod for good", async (t) => {
  const { cri, clock, status } = await start(
    t,
    `  activeDeadlineSeconds: 5\n  containers: [{name: a, ${image}}]`,
  );
  await clock.advance(5000);
  assert.deepEqual(cri.calls.slice(-2), ["stopContainer a 30s", "stopPodSandbox web"]);
  assert.equal(`${status().phase} ${status().reason ?? ""}`, "Failed DeadlineExceeded");
  await clock.advance(600_000);
  assert.equal(cri.calls.at(-1), "stopPodSandbox web");
});

const withDeadline = `  restartPolicy: Never\n  activeDeadlineSeconds: 5\n  containers: [{name: a, ${image}}]`;

test("a pod that has ended before its activeDeadlineSeconds stays as it is, also for the next play", async (t) => {
  const { deps, clock, status } = await start(t, withDeadline, ({ cri }) => cri.exits.set("a", 0));
  await clock.advance(600_000);
  assert.equal(`${status().phase} ${status().reason ?? ""}`, "Succeeded ");
  await using next = new Kubelet({ ...deps, playId: "play-2" });
  const worker = next.apply(await podWith(withDeadline), { failFast: false });
  await clock.advance(0);
  assert.equal(`${worker.status?.phase} ${worker.status?.reason ?? ""}`, "Succeeded ");
});

const withLimits = `  containers: [{name: a, ${image}}]\n  volumes: [{name: m, emptyDir: {medium: Memory, sizeLimit: 1}}, {name: d, emptyDir: {sizeLimit: 1Ki}}]`;

for (const [what, error] of [
  ["", undefined],
  [", also after one that could not be measured", new ShimError("timeout", "du hangs")],
] as const)
  test(`an emptyDir larger than its sizeLimit evicts the pod within ten seconds${what}`, async (t) => {
    const { cri, deps, files, clock, status, events } = await start(t, withLimits, ({ files }) => {
      files.usages.set("/state/uid-1/volumes/empty-dir/m", 4096n);
      files.usages.set("/state/uid-1/volumes/empty-dir/d", 1024n);
    });
    await clock.advance(20_000);
    assert.equal(status().phase, "Running");
    const path = "/state/uid-1/volumes/empty-dir/d";
    if (error !== undefined) files.usages.set(path, error);
    await clock.advance(20_000);
    assert.equal(status().phase, "Running");
    const warnings = events.filter(({ type }) => type === "Warning").map(({ message }) => message);
    assert.deepEqual(warnings, error === undefined ? [] : ["du hangs"]);
    files.usages.set(path, 1025n);
    await clock.advance(10_000);
    assert.deepEqual(cri.calls.slice(-2), ["stopContainer a 30s", "stopPodSandbox web"]);
    assert.equal(`${status().phase} ${status().reason ?? ""}`, "Failed Evicted");
    assert.equal(status().message, 'Usage of EmptyDir volume "d" exceeds the limit "1Ki".');
    await clock.advance(600_000);
    assert.equal(cri.calls.at(-1), "stopPodSandbox web");
    files.usages.clear();
    await using next = new Kubelet({ ...deps, playId: "play-2" });
    const worker = next.apply(await podWith(withLimits), { failFast: false });
    await clock.advance(600_000);
    assert.equal(worker.status?.reason, "Evicted", "for the next play");
    assert.equal(cri.calls.at(-1), "stopPodSandbox web");
  });

test("a pod is evicted also when the disk that it has filled has no room for the reason", async (t) => {
  const { cri, deps, files, clock, status, events } = await start(t, withLimits, () => undefined);
  files.failOn = "writeFile /state/uid-1/end.json";
  files.usages.set("/state/uid-1/volumes/empty-dir/d", 1025n);
  await clock.advance(10_000);
  assert.deepEqual(cri.calls.slice(-2), ["stopContainer a 30s", "stopPodSandbox web"]);
  assert.equal(status().reason, "Evicted");
  await clock.advance(60_000);
  const failures = events.filter(({ reason }) => reason === "FailedSync").map(({ message }) => message);
  const failure = "keep for later plays that the pod has ended: the disk broke";
  assert.deepEqual([...new Set(failures)], [failure]);
  files.failOn = "";
  await clock.advance(60_000);
  files.usages.clear();
  await using next = new Kubelet({ ...deps, playId: "play-2" });
  const worker = next.apply(await podWith(withLimits), { failFast: false });
  await clock.advance(600_000);
  assert.equal(worker.status?.reason, "Evicted", "for the next play");
});

test("a container whose rule says so makes all start anew, with init containers, and counts on", async (t) => {
  const rule =
    "restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]";
  const spec =
    `  restartPolicy: Never\n  initContainers: [{name: i, ${image}}]\n` +
    `  containers: [{name: a, ${image}, restartPolicy: Never, ${rule}}, {name: b, ${image}}]`;
  const { cri, files, status } = await start(t, spec, ({ cri: server, files: { paths } }) => {
    server.exits.set("i", 0);
    server.exitsInTurn.set("a", [42, 42]);
    const create = server.createContainer.bind(server);
    server.createContainer = (sandbox, config, ...rest) => {
      paths.add(`/logs/default_web_uid-1/${config.log_path}`);
      return create(sandbox, config, ...rest);
    };
  });
  const calls = cri.calls.filter((call) => /^(stop|remove|start)Container/.test(call));
  const round = ["stopContainer b 2s", "removeContainer b", "removeContainer i", "removeContainer a"];
  const begin = ["startContainer i", "startContainer a", "startContainer b"];
  assert.deepEqual(calls, [...begin, ...round, ...begin, ...round, ...begin]);
  assert.equal(stateOf(status()), "running ready 2");
  assert.equal(status().phase, "Running");
  const logs = [...files.paths].filter((path) => path.includes("/a/") && path.endsWith(".log"));
  const found = logs.map((path) => path.slice(-5));
  assert.deepEqual(found, ["1.log", "2.log"]);
});

test("a pod that had ended and is made again has its probes again", async (t) => {
  const probed = `  restartPolicy: Never\n${probe("readiness")}`;
  const { clock, kubelet, status } = await start(t, probed, ({ cri }) => cri.exitsInTurn.set("a", [0]));
  assert.equal(status().phase, "Succeeded");
  kubelet.apply(await podWith(`${probed}\n  hostname: other`), { failFast: true });
  await clock.advance(10_000);
  assert.equal(stateOf(status()), "running ready 0");
});

test("a pull that fails is repeated after the back-off of images", async (t) => {
  const { cri, clock, status, events } = await start(
    t,
    "  containers: [{name: a, image: other:1}]",
    ({ cri }) => (cri.failOn = "pullImage other:1"),
  );
  const message = events.find(({ reason }) => reason === "Failed")?.message ?? "";
  assert.match(message, /: it broke \(after 0 ?m?s\)$/);
  const pulls = (): number => cri.calls.filter((call) => call === "pullImage other:1").length;
  assert.equal(pulls(), 1);
  assert.equal(stateOf(status()), "ImagePullBackOff 0");
  await clock.advance(10_000);
  assert.equal(pulls(), 2);
  await clock.advance(19_999);
  assert.equal(pulls(), 2);
  assert.equal(status().phase, "Pending");
  cri.failOn = "";
  await clock.advance(1);
  assert.equal(stateOf(status()), "running ready 0");
});

test("a sandbox that has ended is replaced, and the restart count goes on", async (t) => {
  const { cri, clock, status } = await start(t, plain);
  for (const sandbox of cri.sandboxes) sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
  cri.end("a", 137);
  await clock.advance(0);
  assert.deepEqual(attemptsOf(cri.sandboxes), [0, 1]);
  assert.equal(stateOf(status()), "running ready 1");
});

test("terminationMessagePolicy FallbackToLogsOnError: the end of the log is the message of a failure", async (t) => {
  const { status } = await start(
    t,
    `  restartPolicy: Never\n  containers: [{name: a, ${image}, terminationMessagePolicy: FallbackToLogsOnError}]`,
    ({ cri, files }) => {
      cri.exits.set("a", 3);
      files.texts.set("/logs/a/0.log", "2024-05-01T10:00:00Z stderr F no such table\n");
    },
  );
  const end = status().containerStatuses[0]?.state.terminated;
  assert.equal(end?.message, "no such table\n");
  assert.equal(status().phase, "Failed");
});

const limited = (memory: string): string => withFields(`resources: {limits: {memory: ${memory}}}`);

function withCgroups(t: TestContext): Fixture {
  const fixture = makeFixture();
  const node = { ...fixture.deps.node, podCgroups: { driver: "cgroupfs" } } as const;
  const kubelet = new Kubelet({ ...fixture.deps, node });
  t.after(() => kubelet[Symbol.asyncDispose]());
  return { ...fixture, kubelet };
}

test("the cgroup of a pod is made before its sandbox, and removed after it", async (t) => {
  const { cri, clock, files, kubelet } = withCgroups(t);
  const order: string[] = [];
  for (const calls of [cri.calls, files.calls]) {
    const push = calls.push.bind(calls);
    calls.push = (...entries) => {
      order.push(...entries.filter((entry) => /Cgroup|PodSandbox/.test(entry)));
      return push(...entries);
    };
  }
  const manifest = await podWith(limited("64Mi"));
  await kubelet.apply(manifest, { failFast: true }).applied;
  await clock.advance(0);
  assert.equal(files.cgroups.get("uid-1")?.memoryBytes, 64n * 1024n ** 2n);
  await kubelet.remove(manifest.key, signal);
  assert.deepEqual(
    order.map((entry) => entry.split(" ")[0]),
    ["makeCgroup", "runPodSandbox", "stopPodSandbox", "removePodSandbox", "removeCgroup"],
  );
});

test("a changed limit reaches the cgroup of the pod after the old container has ended", async (t) => {
  const { cri, clock, files, kubelet } = withCgroups(t);
  await kubelet.apply(await podWith(limited("64Mi")), { failFast: true }).applied;
  const makeCgroup = files.makeCgroup.bind(files);
  files.makeCgroup = async (cgroup) => {
    assert.equal(cri.calls.at(-1), "stopContainer a 30s");
    await makeCgroup(cgroup);
  };
  await kubelet.apply(await podWith(limited("16Mi")), { failFast: true }).applied;
  await clock.advance(0);
  assert.equal(files.cgroups.get("uid-1")?.memoryBytes, 16n * 1024n ** 2n);
});

test("a pod whose cgroup cannot be made gets no sandbox", async (t) => {
  const { cri, files, kubelet } = withCgroups(t);
  files.failOn = "makeCgroup /dockershim-play/poduid-1";
  const { applied } = kubelet.apply(await podWith(limited("64Mi")), { failFast: true });
  await assert.rejects(applied, /make the cgroup of the pod: the disk broke/);
  assert.deepEqual(cri.calls, []);
});

describe("a changed container of a pod that does not restart it", () => {
  const never = "  restartPolicy: Never\n";
  const one = (words: string): string => `{name: a, ${image}, command: [${words}]}`;
  const two = (words: string): string => `${never}  containers: [${one(words)}, {name: b, ${image}}]`;

  /** Applies the second manifest, once the container `a` of the first has ended with this code. */
  async function change(
    [first, second]: readonly [string, string],
    exitCode: number,
    { again }: { readonly again: boolean },
  ): Promise<Fixture & { readonly phases: readonly string[] }> {
    const fixture = makeFixture();
    const { kubelet, clock, cri } = fixture;
    kubelet.apply(await podWith(first), { failFast: true });
    await clock.advance(0);
    cri.end("a", exitCode);
    await clock.advance(0);
    const phases: string[] = [];
    const next = again ? new Kubelet(fixture.deps) : kubelet;
    if (again) await kubelet[Symbol.asyncDispose]();
    next.listen({
      onStatus: (_, { phase }) => phases.push(phase),
      onEvent: (event) => fixture.events.push(event),
    });
    await Promise.all([next.apply(await podWith(second), { failFast: true }).applied, clock.advance(0)]);
    await next[Symbol.asyncDispose]();
    return { ...fixture, phases };
  }

  const single = (words: string): string => `${never}  containers: [${one(words)}]`;
  const onFailure = (words: string): string => single(words).replace("Never", "OnFailure");
  const cases: readonly (readonly [string, readonly [string, string], number])[] = [
    ["a pod that has succeeded", [single("x"), single("z")], 0],
    ["a pod that has failed", [single("x"), single("z")], 1],
    ["a pod of which another container runs", [two("x"), two("z")], 0],
    ["a pod that restarts only failures", [onFailure("x"), onFailure("z")], 0],
  ];
  for (const again of [false, true]) {
    for (const [what, manifests, exitCode] of cases) {
      test(`${what} is made again, ${again ? "by the next play" : "while it is watched"}`, async () => {
        const { cri, events, phases } = await change(manifests, exitCode, { again });
        assert.equal(cri.calls.filter((call) => call.startsWith("runPodSandbox")).length, 2);
        assert.equal(cri.sandboxes.length, 1);
        assert.ok(events.some(({ reason }) => reason === "Recreating"));
        assert.equal(phases.at(-1), "Running");
        // Of the pod as it was nothing is told: a job would count it.
        assert.equal(phases.includes("Succeeded") || phases.includes("Failed"), false, phases.join());
      });
    }
  }

  test("a pod that has ended and is as before stays", async () => {
    const { cri } = await change([single("x"), single("x")], 0, { again: true });
    assert.equal(cri.calls.filter((call) => call.startsWith("runPodSandbox")).length, 1);
  });
});
