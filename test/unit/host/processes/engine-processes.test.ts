import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  EngineProcesses,
  type EngineProcessesOptions,
} from "../../../../src/shim/host/processes/engine-processes.js";
import type { ProcessStat } from "../../../../src/lib/linux/process-stat.js";
import { ProcFiles } from "../../../../src/shim/host/processes/proc-files.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { until } from "../../../support/wait.js";
import { FakeProc, type FakeProcess } from "../fake-proc.js";

const score = (text: string): Record<string, string> => ({ oom_score_adj: `${text}\n` });

/** dockerd 50 with its containerd 51, and 60 with 61 of another engine. */
async function setUp(dockerd: FakeProcess = {}) {
  const fake = await FakeProc.make();
  const socket = join(fake.directory, "docker.sock");
  await writeFile(socket, "");
  const files = score("-500");
  await fake.add(50, { comm: "dockerd", sockets: { 7: socket }, files, ...dockerd });
  await fake.add(51, { comm: "containerd", parent: 50, files: score("0") });
  await fake.add(60, { comm: "dockerd", files: score("0") });
  await fake.add(61, { comm: "containerd", parent: 60, files: score("0") });
  const log = recordingLog();
  return {
    fake,
    socket,
    log,
    watch: (options: Partial<EngineProcessesOptions> = {}) =>
      new EngineProcesses({
        endpoint: { kind: "unix", path: socket },
        log,
        proc: fake.proc,
        pidFiles: [join(fake.directory, "docker.pid")],
        ...options,
      }),
    scores: async () => {
      const text = async (pid: number): Promise<string> => (await fake.read(pid, "oom_score_adj")).trim();
      const texts = [50, 51, 60, 61].map(async (pid) => [pid, await text(pid)]);
      return Object.fromEntries(await Promise.all(texts)) as Record<number, string>;
    },
    [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose](),
  };
}

describe("EngineProcesses.check()", () => {
  test("gives dockerd and containerd of this engine -999, and those of no other", async () => {
    await using at = await setUp();
    await at.watch().check();
    assert.deepEqual(await at.scores(), { 50: "-999", 51: "-999", 60: "0", 61: "0" });
    const lines = at.log.lines.map(({ level, fields }) => `${level} ${String(fields["pid"])}`);
    assert.deepEqual(lines, ["info 50", "info 51"]);
  });

  test("does not change a process with the score -1000", async () => {
    await using at = await setUp({ files: score("-1000") });
    await at.watch().check();
    assert.equal((await at.scores())[50], "-1000");
  });

  type Untouched = readonly [what: string, dockerd: FakeProcess, options: Partial<EngineProcessesOptions>];
  const untouched: readonly Untouched[] = [
    ["in another PID namespace", { pidNamespace: 9 }, {}],
    ["of a remote endpoint", {}, { endpoint: { kind: "tcp" } }],
    ["that do not listen at the endpoint", {}, { endpoint: { kind: "unix", path: "/no/such.sock" } }],
  ];
  for (const [what, dockerd, options] of untouched) {
    test(`does not change processes ${what}, and logs that at most once`, async () => {
      await using at = await setUp(dockerd);
      const watch = at.watch({ runtimeCgroups: "/engine", ...options });
      await watch.check();
      await watch.check();
      assert.deepEqual(await at.scores(), { 50: "-500", 51: "0", 60: "0", 61: "0" });
      assert.ok(at.log.lines.length <= 1);
    });
  }

  test("does not change a containerd in another PID namespace", async () => {
    await using at = await setUp();
    await at.fake.add(51, { comm: "containerd", parent: 50, files: score("0"), pidNamespace: 9 });
    await at.watch().check();
    assert.deepEqual(await at.scores(), { 50: "-999", 51: "0", 60: "0", 61: "0" });
  });

  test("reports a failure once, another one anew, and goes on with the next process", async () => {
    await using at = await setUp();
    await rm(at.fake.proc.path(50, "oom_score_adj"));
    const watch = at.watch();
    await watch.check();
    await watch.check();
    const warnings = (): number => at.log.linesAt("warn").length;
    assert.equal(warnings(), 1);
    assert.equal((await at.fake.read(51, "oom_score_adj")).trim(), "-999");
    await writeFile(at.fake.proc.path(50, "oom_score_adj"), "0");
    await watch.check();
    await rm(at.fake.proc.path(50, "oom_score_adj"));
    await watch.check();
    assert.equal(warnings(), 2, "after a success the same failure is news");
    await mkdir(at.fake.proc.path(50, "oom_score_adj"));
    await watch.check();
    assert.equal(warnings(), 3);
  });

  test("does not change a new process with the same pid", async () => {
    await using at = await setUp();
    let looks = 0;
    const proc = new (class extends ProcFiles {
      override async stat(pid: number): Promise<ProcessStat | undefined> {
        const found = await super.stat(pid);
        return pid === 50 && found !== undefined && ++looks > 1 ? { ...found, startTime: "2000" } : found;
      }
    })(at.fake.proc.root);
    await at.watch({ proc }).check();
    assert.equal((await at.scores())[50], "-500");
  });

  test("moves both into the cgroup that was asked for", async () => {
    await using at = await setUp({ cgroup: "2:pids:/system\n", files: score("0") });
    await at.fake.add(51, { comm: "containerd", parent: 50, cgroup: "2:pids:/system\n", files: score("0") });
    const cgroup = join(at.fake.directory, "pids", "engine");
    await mkdir(cgroup, { recursive: true });
    await writeFile(join(cgroup, "cgroup.procs"), "");
    const mountinfo = `30 20 0:2 / ${join(at.fake.directory, "pids")} rw - cgroup cgroup rw,pids\n`;
    await at.fake.add("self", { files: { mountinfo } });
    await at.watch({ runtimeCgroups: "/engine" }).check();
    const moved = at.log.lines.filter(({ fields }) => fields["cgroup"] === "/engine");
    const pids = moved.map(({ fields }) => fields["pid"]);
    assert.deepEqual(pids, [50, 51]);
  });
});

describe("EngineProcesses.start()", () => {
  test("looks at once and again after the interval, until it is stopped", async () => {
    await using at = await setUp();
    const watch = at.watch({ intervalMs: 5 });
    watch.start();
    const isSet = async (): Promise<boolean> => (await at.scores())[50] === "-999";
    await until("the first round", isSet);
    // The engine was restarted.
    await at.fake.add(50, { comm: "dockerd", sockets: { 7: at.socket }, files: score("0"), startTime: 2 });
    await until("a later round", isSet);
    await watch.stop();
    await at.fake.add(50, { comm: "dockerd", sockets: { 7: at.socket }, files: score("0"), startTime: 3 });
    assert.equal(await isSet(), false);
  });

  test("can be stopped while a check hangs, and begins no second check meanwhile", async () => {
    await using at = await setUp();
    let looks = 0;
    const proc = new (class extends ProcFiles {
      override pids(): Promise<readonly number[]> {
        looks += 1;
        return new Promise(() => undefined);
      }
    })(at.fake.proc.root);
    const watch = at.watch({ proc });
    watch.start();
    await until("the look has begun", () => looks > 0);
    await watch.check();
    assert.equal(looks, 1);
    assert.match(String(at.log.lines.at(-1)?.fields["err"]), /an earlier look has not ended/);
    const stopped = watch.stop().then(() => "stopped");
    assert.equal(await Promise.race([stopped, sleep(10_000, "hangs", { ref: false })]), "stopped");
  });
});
