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

/** Statistics from answers by id; an Error is thrown. */
function statsOf(answers: Readonly<Record<string, EngineReading | Error | undefined>>) {
  const asked: string[] = [];
  const clock = { nowMs: 1_000_000 };
  const stats = new EngineStats({
    engine: {
      containerStats: (id) => {
        asked.push(id);
        const answer = answers[id];
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
    },
    log: recordingLog(),
    now: () => clock.nowMs,
  });
  return { stats, asked, clock };
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

  test("leaves out ended and failing containers; without an engine the call fails", async () => {
    const c = idOf("c");
    const { stats } = statsOf({ [a]: recorded(engineStats), [b]: undefined, [c]: new Error("broken") });
    const readings = await byId(stats.readContainers([a, b, c].map(container), light, signal));
    assert.deepEqual([...readings.keys()], [a]);
    const down = statsOf({ [a]: new ShimError("unavailable", "no engine") });
    await assert.rejects(byId(down.stats.readContainers([container(a)], light, signal)), /no engine/);
  });

  test("one failed request does not fail the others", async () => {
    const { stats } = statsOf({ [a]: recorded(engineStats), [b]: new ShimError("unavailable", "lost") });
    const readings = await byId(stats.readContainers([b, a].map(container), light, signal));
    assert.deepEqual([...readings.keys()], [a]);
    assert.match(stats.failureOf(b) ?? "", /lost/);
  });

  test("leaves out a container whose request hangs, and shares that request among callers", async () => {
    const asked: string[] = [];
    const stats = new EngineStats({
      engine: {
        containerStats: (id, own) => {
          asked.push(id);
          const answer =
            id === a ? Promise.resolve(recorded(engineStats)) : new Promise<never>(() => undefined);
          return orAbort(answer, own);
        },
      },
      log: recordingLog(),
      now: () => 0,
      sampleLimitMs: 20,
    });
    const read = (): Promise<readonly string[]> =>
      byId(stats.readContainers([b, a].map(container), light, signal)).then((readings) => [
        ...readings.keys(),
      ]);
    assert.deepEqual(await Promise.all([read(), read()]), [[a], [a]]);
    assert.deepEqual(await read(), [a]);
    assert.deepEqual(asked, [b, a]);
  });

  test("waits once per answer for requests that hang, and then reads the containers behind them", async () => {
    const hung = Array.from({ length: 96 }, (_, index) => idOf(`e${index}e`));
    const asked: string[] = [];
    const clock = { nowMs: 0 };
    const log = recordingLog();
    const stats = new EngineStats({
      engine: {
        containerStats: (id, own) => {
          asked.push(id);
          return id === a
            ? Promise.resolve(recorded(engineStats))
            : orAbort(new Promise<never>(() => undefined), own);
        },
      },
      log,
      now: () => clock.nowMs,
      sampleLimitMs: 400,
    });
    const read = async (): Promise<readonly string[]> => [
      ...(await byId(stats.readContainers([...hung, a].map(container), light, signal))).keys(),
    ];
    for (const begin of [0, 32, 64]) {
      assert.deepEqual(await read(), []);
      assert.deepEqual(asked.splice(0), hung.slice(begin, begin + 32));
      assert.equal(stats.failureOf(a), "requests for the statistics of other containers hang");
    }
    assert.deepEqual(await read(), [a]);
    assert.equal(log.lines.length, hung.length, "no line names a container that was not asked");
    // They are asked again, after the others.
    clock.nowMs += 30_000;
    assert.deepEqual(await read(), [a]);
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
    const asked: string[] = [];
    const answers: (() => void)[] = [];
    const stats = new EngineStats({
      engine: {
        containerStats: (id) => {
          asked.push(id);
          return new Promise((resolve) => {
            answers.unshift(() => {
              resolve(recorded(engineStats));
            });
          });
        },
      },
      log: recordingLog(),
    });
    const pods = [a, b].map((id) => ({
      sandbox: sandboxSnapshot(id),
      containers: [],
      hostNetwork: true,
      hasOwnCgroup: true,
    }));
    const readings = byId(stats.readPods(pods, light, signal));
    await turns(2);
    assert.deepEqual(asked, [a, b]);
    for (const answer of answers) answer();
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
    assert.deepEqual(
      pod.interfaces?.map(({ name }) => name),
      ["eth0"],
    );
    assert.deepEqual([...pod.containers.keys()], [a]);
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
  assert.equal(reading?.resources.details?.tasksLimit, undefined);
  assert.deepEqual(
    reading?.resources.details?.blocks.map(({ operation, bytes, operations }) => [
      operation,
      bytes,
      operations,
    ]),
    [
      ["Read", 10, 1],
      ["Write", 20, 2],
    ],
  );
});
