import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { orAbort } from "../../../src/lib/abort.js";
import type { Snapshot } from "../../../src/domain/snapshot.js";
import type { MeasuredLayer } from "../../../src/shim/stats/layer-measurement.js";
import { WritableLayers } from "../../../src/shim/stats/writable-layers.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { turns, until } from "../../fakes/turns.js";
import { idOf, snapshotOf } from "../../fakes/snapshots.js";

const a = snapshotOf({ id: idOf("a") });
const b = snapshotOf({ id: idOf("b") });

const layerOf = (usedBytes: number, inodes = 2, isPartial = false): MeasuredLayer => {
  return { timestamp: 1n, usedBytes, inodes, isPartial };
};

/** Layers under a clock; each measurement takes `tookMs` and answers `usage`. */
class Harness {
  nowMs = 0;
  tookMs = 10;
  running: Snapshot[] = [a];
  cpuTime: number | undefined = undefined;
  usage: MeasuredLayer | undefined = layerOf(100);
  readonly log = recordingLog();
  readonly measured: { readonly id: string; readonly atMs: number }[] = [];
  #atOnce = 0;
  readonly layers = new WritableLayers({
    running: () => this.running,
    measure: async ({ id }) => {
      this.#atOnce += 1;
      assert.equal(this.#atOnce, 1, "one at a time");
      this.measured.push({ id, atMs: this.nowMs });
      await Promise.resolve();
      this.nowMs += this.tookMs;
      this.#atOnce -= 1;
      if (this.usage?.usedBytes === -1) throw new Error("broken");
      return this.usage;
    },
    cpuTime: () => Promise.resolve(this.cpuTime),
    log: this.log,
    now: () => this.nowMs,
  });

  /** Rounds until `untilMs`, a second apart. */
  async run(untilMs: number): Promise<void> {
    for (; this.nowMs <= untilMs; this.nowMs += 1000) await this.layers.round();
  }
}

describe("WritableLayers", () => {
  test("measures new ones at once, one after the other", async () => {
    const harness = new Harness();
    harness.running = [a, b];
    assert.equal(harness.layers.usageOf(a.id), undefined);
    await harness.layers.round();
    const found = harness.measured.map(({ id }) => id);
    assert.deepEqual(found, [a.id, b.id]);
    assert.equal(harness.layers.usageOf(b.id)?.usedBytes, 100);
  });

  test("measures a layer rarely while its container uses no CPU time", async () => {
    const harness = new Harness();
    harness.cpuTime = 7;
    await harness.run(200_000);
    assert.equal(harness.measured.length, 1);
    await harness.run(300_000);
    assert.equal(harness.measured.length, 2, "sleeping layers are measured every 4 minutes, too");
    harness.cpuTime = 8;
    await harness.run(335_000);
    assert.equal(harness.measured.length, 3);
  });

  for (const [what, usage] of [
    ["failed", undefined],
    ["partial", layerOf(1, 1, true)],
  ] as const) {
    test(`a ${what} measurement is repeated, also for a container without CPU time`, async () => {
      const harness = new Harness();
      harness.cpuTime = 7;
      harness.usage = usage;
      await harness.run(32_000);
      assert.ok(harness.measured.length > 1);
    });
  }

  test("measures a layer every 30 seconds while its container uses CPU time", async () => {
    const harness = new Harness();
    await harness.run(95_000);
    const found = harness.measured.map(({ atMs }) => Math.round(atMs / 1000));
    assert.deepEqual(found, [0, 30, 60, 90]);
  });

  test("spends at most a hundredth of the time on a big one", async () => {
    const harness = new Harness();
    harness.tookMs = 5_000;
    await harness.run(499_000);
    assert.equal(harness.measured.length, 1);
    await harness.run(507_000);
    assert.equal(harness.measured.length, 2);
  });

  test("asks the engine, which counts no inodes, every five minutes at most", async () => {
    const harness = new Harness();
    harness.usage = { ...layerOf(100), inodes: undefined };
    await harness.run(299_000);
    assert.equal(harness.measured.length, 1);
  });

  test("keeps the last size when a measurement fails, and forgets what does not run any more", async () => {
    const harness = new Harness();
    await harness.layers.round();
    harness.usage = layerOf(-1);
    await harness.run(200_000);
    assert.ok(harness.measured.length > 1);
    assert.equal(harness.layers.usageOf(a.id)?.usedBytes, 100);
    harness.running = [];
    await harness.layers.round();
    assert.equal(harness.layers.usageOf(a.id), undefined);
  });

  for (const [what, before, counted, told] of [
    ["the counted size without an earlier size", undefined, 50, 50],
    ["the last size if that is larger", 100, 50, 100],
    ["the counted size if that is larger", 100, 150, 150],
  ] as const) {
    test(`reports for an incompletely counted layer ${what}, and logs that once`, async () => {
      const harness = new Harness();
      harness.usage = before === undefined ? undefined : layerOf(before);
      await harness.run(5_000);
      harness.usage = layerOf(counted, 1, true);
      await harness.run(200_000);
      assert.equal(harness.layers.usageOf(a.id)?.usedBytes, told);
      assert.equal(harness.log.lines.filter(({ level }) => level === "warn").length, 1);
      harness.usage = layerOf(1);
      await harness.run(harness.nowMs + 2_000_000);
      assert.equal(harness.layers.usageOf(a.id)?.usedBytes, 1);
    });
  }

  test("ends a measurement that is under way when it is stopped", async () => {
    let isUnderWay = false;
    const measure = (_: Snapshot, signal: AbortSignal): Promise<never> => {
      isUnderWay = true;
      return orAbort(new Promise<never>(() => undefined), signal);
    };
    const layers = new WritableLayers({ running: () => [a], measure, log: recordingLog() });
    layers.start();
    await until("it is measured", () => isUnderWay);
    await layers.stop();
  });

  test("waits for a measurement that does not end, and stops all the same", async () => {
    const begun: string[] = [];
    const measure = ({ id }: Snapshot): Promise<never> => new Promise(() => begun.push(id));
    const layers = new WritableLayers({ running: () => [a, b], measure, log: recordingLog() });
    layers.start();
    await turns(5);
    await layers.stop();
    assert.deepEqual(begun, [a.id]);
  });

  test("begins with those that were never measured", async () => {
    const harness = new Harness();
    await harness.layers.round();
    harness.running = [a, b];
    harness.nowMs = 3_600_000;
    await harness.layers.round();
    const found = harness.measured.map(({ id }) => id);
    assert.deepEqual(found, [a.id, b.id, a.id]);
  });
});
