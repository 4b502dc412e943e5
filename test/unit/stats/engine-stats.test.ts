import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { orAbort, sleep } from "../../../src/lib/abort.js";
import { ShimError } from "../../../src/lib/errors.js";
import type { EngineReading } from "../../../src/domain/resource-reading.js";
import { toEngineReading } from "../../../src/shim/engine/stats.js";
import { EngineStats } from "../../../src/shim/stats/engine-stats.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { containerSnapshot, idOf, sandboxSnapshot } from "../../fakes/snapshots.js";
import { turns } from "../../fakes/turns.js";
import { byId, readGolden } from "./golden-cgroup.js";

const signal = new AbortController().signal;
const light = { details: false };
const [a, b] = [idOf("a"), idOf("b")];
const golden = await readGolden("v1");
const { engineStats } = golden;
const container = (id: string): ReturnType<typeof containerSnapshot> => containerSnapshot(id, b);

function recorded(answer: unknown): EngineReading {
  const reading = toEngineReading(answer);
  assert.ok(reading);
  return reading;
}

const hangs = Symbol("hangs");

/** Statistics from answers by id; an Error is thrown, and `hangs` never ends. */
function statsOf(
  answers: Readonly<Record<string, EngineReading | Error | typeof hangs | undefined>>,
  sampleLimitMs?: number,
) {
  const asked: string[] = [];
  const clock = { nowMs: 1_000_000 };
  const log = recordingLog();
  const containerStats = (id: string, own: AbortSignal): Promise<EngineReading | undefined> => {
    asked.push(id);
    const answer = answers[id];
    if (answer === hangs) return orAbort(new Promise<never>(() => undefined), own);
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  const limit = sampleLimitMs === undefined ? {} : { sampleLimitMs };
  const stats = new EngineStats({ engine: { containerStats }, log, now: () => clock.nowMs, ...limit });
  /** The ids of those that could be read. */
  const read = async (...ids: readonly string[]): Promise<readonly string[]> => [
    ...(await byId(stats.readContainers(ids.map(container), light, signal))).keys(),
  ];
  return { stats, asked, clock, log, read };
}

describe("EngineStats", () => {
  test("asks once per container for calls that come together", async () => {
    const { stats, asked, clock } = statsOf({ [a]: recorded(engineStats) });
    const limited = containerSnapshot(a, b, { resources: { memory: 64 * 1024 * 1024 } });
    const first = await byId(stats.readContainers([limited], light, signal));
    assert.equal(first.get(a)?.memory?.workingSet, 9_474_048 - 8_146_944);
    assert.equal(first.get(a)?.memory?.limit, 64 * 1024 * 1024);
    assert.ok((first.get(a)?.nanoCores ?? -1) >= 0);
    await byId(stats.readContainers([limited], light, signal));
    assert.deepEqual(asked, [a]);
    clock.nowMs += 1000;
    await byId(stats.readContainers([limited], light, signal));
    assert.deepEqual(asked, [a, a]);
  });

  test("has no limit when the engine reports the host's memory as the limit", async () => {
    const unlimited = (await readGolden("v2")).engineStats;
    const { stats } = statsOf({ [a]: recorded(unlimited) });
    const readings = await byId(stats.readContainers([container(a)], light, signal));
    assert.equal(readings.get(a)?.memory?.limit, undefined);
  });

  test("leaves out ended and failing containers, and fails only when none can be read", async () => {
    const c = idOf("c");
    const lost = new ShimError("unavailable", "lost");
    assert.deepEqual(await statsOf({ [a]: recorded(engineStats), [c]: new Error("broken") }).read(a, b, c), [
      a,
    ]);
    const { stats, read } = statsOf({ [a]: recorded(engineStats), [b]: lost });
    assert.deepEqual(await read(b, a), [a]);
    assert.match(stats.failureOf(b) ?? "", /lost/);
    await assert.rejects(statsOf({ [a]: lost }).read(a), /lost/);
  });

  test("leaves out a container whose request hangs, and shares that request among callers", async () => {
    const { asked, read } = statsOf({ [a]: recorded(engineStats), [b]: hangs }, 20);
    assert.deepEqual(await Promise.all([read(b, a), read(b, a)]), [[a], [a]]);
    assert.deepEqual(await read(b, a), [a]);
    assert.deepEqual(asked, [b, a]);
  });

  test("waits once per answer for requests that hang, and then reads the containers behind them", async () => {
    const hung = Array.from({ length: 96 }, (_, index) => idOf(`e${index}e`));
    const answers = {
      ...Object.fromEntries(hung.map((id) => [id, hangs] as const)),
      [a]: recorded(engineStats),
    };
    const { stats, asked, clock, log, read } = statsOf(answers, 400);
    for (const begin of [0, 32, 64]) {
      assert.deepEqual(await read(...hung, a), []);
      assert.deepEqual(asked.splice(0), hung.slice(begin, begin + 32));
      assert.equal(stats.failureOf(a), "requests for the statistics of other containers hang");
    }
    assert.deepEqual(await read(...hung, a), [a]);
    assert.equal(log.lines.length, hung.length, "no line names a container that was not asked");
    // They are asked again, after the others.
    clock.nowMs += 30_000;
    assert.deepEqual(await read(...hung, a), [a]);
    assert.deepEqual(asked.splice(0), [a, a, ...hung.slice(0, 32)]);
  });

  test("reads more containers than there are places as long as the engine answers", async () => {
    const ids = Array.from({ length: 128 }, (_, index) => idOf(`e${index}e`));
    const stats = new EngineStats({
      engine: { containerStats: () => sleep(300).then(() => recorded(engineStats)) },
      log: recordingLog(),
      sampleLimitMs: 1_600,
    });
    const readings = await byId(stats.readContainers(ids.map(container), light, signal));
    assert.deepEqual([...readings.keys()], ids);
  });

  test("asks for all pods at once, and gives them in the order that they were asked for in", async () => {
    const answers = new Map<string, (reading: EngineReading) => void>();
    const containerStats = (id: string): Promise<EngineReading> =>
      new Promise((resolve) => answers.set(id, resolve));
    const stats = new EngineStats({ engine: { containerStats }, log: recordingLog() });
    const of = { containers: [], hostNetwork: true, hasOwnCgroup: true };
    const pods = [a, b].map((id) => ({ sandbox: sandboxSnapshot(id), ...of }));
    const readings = byId(stats.readPods(pods, light, signal));
    await turns(2);
    assert.deepEqual([...answers.keys()], [a, b]);
    for (const id of [b, a]) answers.get(id)?.(recorded(engineStats));
    assert.deepEqual([...(await readings).keys()], [a, b]);
  });

  test("sums up a pod, with the network of its pause container", async () => {
    const { stats } = statsOf({ [a]: recorded(golden.engineStats), [b]: recorded(golden.pauseEngineStats) });
    const parts = {
      sandbox: sandboxSnapshot(b),
      containers: [container(a)],
      hostNetwork: false,
      hasOwnCgroup: true,
    };
    const pod = (await byId(stats.readPods([parts], light, signal))).get(b);
    assert.equal(pod?.resources?.tasks, 5);
    const interfaces = pod.interfaces?.map(({ name }) => name);
    assert.deepEqual([interfaces, [...pod.containers.keys()]], [["eth0"], [a]]);
  });
});

test("toEngineReading() is undefined for the empty sample of a stopped container", () => {
  const stopped = {
    read: "0001-01-01T00:00:00Z",
    pids_stats: {},
    blkio_stats: { io_service_bytes_recursive: null },
    cpu_stats: { cpu_usage: { total_usage: 0 }, throttling_data: {} },
    memory_stats: {},
  };
  assert.equal(toEngineReading(stopped), undefined);
});

test("toEngineReading() reads block traffic with operations in upper and lower case", () => {
  const entry = (op: string, value: number): unknown => ({ major: 8, minor: 0, op, value });
  const reading = toEngineReading({
    pids_stats: { current: 1, limit: 2 ** 64 },
    cpu_stats: { cpu_usage: { total_usage: 1 } },
    blkio_stats: {
      io_service_bytes_recursive: [entry("read", 10), entry("Write", 20), entry("Total", 30)],
      io_serviced_recursive: [entry("read", 1), entry("Write", 2)],
    },
  });
  const { tasksLimit, blocks = [] } = reading?.resources.details ?? {};
  assert.equal(tasksLimit, undefined);
  const found = blocks.map(({ operation, bytes, operations }) => [operation, bytes, operations]);
  assert.deepEqual(found, [
    ["Read", 10, 1],
    ["Write", 20, 2],
  ]);
});
