import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Snapshot } from "../../../src/domain/snapshot.js";
import type { MeasuredLayer } from "../../../src/shim/stats/layer-walk.js";
import { layerMeasurement, WritableLayers } from "../../../src/shim/stats/writable-layers.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { idOf, snapshotOf } from "../../fakes/snapshots.js";
import { orAbort } from "../../../src/lib/abort.js";
import { rejectsWith } from "../../fakes/pods.js";

const a = snapshotOf({ id: idOf("a") });
const b = snapshotOf({ id: idOf("b") });

/** Layers under a clock; each measurement takes `tookMs` and answers `usage`. */
class Harness {
  nowMs = 0;
  tookMs = 10;
  running: Snapshot[] = [a];
  cpuTime: number | undefined = undefined;
  usage: MeasuredLayer | undefined = { timestamp: 1n, usedBytes: 100, inodes: 2 };
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
    assert.deepEqual(
      harness.measured.map(({ id }) => id),
      [a.id, b.id],
    );
    assert.equal(harness.layers.usageOf(b.id)?.usedBytes, 100);
  });

  test("measures a layer rarely while its container uses no CPU time", async () => {
    const harness = new Harness();
    harness.cpuTime = 7;
    await harness.run(200_000);
    assert.equal(harness.measured.length, 1);
    harness.cpuTime = 8;
    await harness.run(300_000);
    assert.equal(harness.measured.length, 2, "sleeping layers are measured every 4 minutes, too");
    harness.cpuTime = 9;
    await harness.run(560_000);
    assert.ok(harness.measured.length > 2);
  });

  test("a failed measurement is repeated, also for a container without CPU time", async () => {
    const harness = new Harness();
    harness.cpuTime = 7;
    harness.usage = undefined;
    await harness.run(12_000);
    assert.ok(harness.measured.length > 1);
  });

  test("measures unchanged layers less and less often, and often again after a change", async () => {
    const harness = new Harness();
    await harness.run(700_000);
    const gaps = harness.measured
      .slice(1)
      .map(({ atMs }, index) => atMs - (harness.measured[index]?.atMs ?? 0));
    assert.ok(gaps.every((gap, index) => index === 0 || gap >= (gaps[index - 1] ?? 0) - 1000));
    assert.ok((gaps.at(-1) ?? 0) >= 240_000);
    const before = harness.measured.length;
    harness.usage = { timestamp: 2n, usedBytes: 200, inodes: 2 };
    await harness.run(harness.nowMs + 240_000);
    const [changed] = harness.measured.slice(before);
    await harness.run((changed?.atMs ?? 0) + 35_000);
    assert.ok(harness.measured.length >= before + 2);
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
    harness.usage = { timestamp: 1n, usedBytes: 100, inodes: undefined };
    await harness.run(299_000);
    assert.equal(harness.measured.length, 1);
  });

  test("keeps the last size when a measurement fails, and forgets what does not run any more", async () => {
    const harness = new Harness();
    await harness.layers.round();
    harness.usage = { timestamp: 1n, usedBytes: -1, inodes: 0 };
    await harness.run(200_000);
    assert.ok(harness.measured.length > 1);
    assert.equal(harness.layers.usageOf(a.id)?.usedBytes, 100);
    harness.running = [];
    await harness.layers.round();
    assert.equal(harness.layers.usageOf(a.id), undefined);
  });

  const least: readonly (readonly [
    what: string,
    before: number | undefined,
    counted: number,
    told: number,
  ])[] = [
    ["the counted size without an earlier size", undefined, 50, 50],
    ["the last size if that is larger", 100, 50, 100],
    ["the counted size if that is larger", 100, 150, 150],
  ];
  for (const [what, before, counted, told] of least) {
    test(`reports for an incompletely counted layer ${what}, and logs that once`, async () => {
      const harness = new Harness();
      harness.usage = before === undefined ? undefined : { timestamp: 1n, usedBytes: before, inodes: 2 };
      await harness.run(5_000);
      harness.usage = { timestamp: 2n, usedBytes: counted, inodes: 1, shortfall: "too wide" };
      await harness.run(200_000);
      assert.equal(harness.layers.usageOf(a.id)?.usedBytes, told);
      assert.deepEqual(
        harness.log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields["reason"]),
        ["too wide"],
      );
      harness.usage = { timestamp: 3n, usedBytes: 1, inodes: 1 };
      await harness.run(harness.nowMs + 2_000_000);
      assert.equal(harness.layers.usageOf(a.id)?.usedBytes, 1);
    });
  }

  test("a partial measurement is repeated, also for a container without CPU time", async () => {
    const harness = new Harness();
    harness.cpuTime = 7;
    harness.usage = { timestamp: 2n, usedBytes: 1, inodes: 1, shortfall: "too wide" };
    await harness.run(12_000);
    assert.ok(harness.measured.length > 1);
  });

  test("ends a measurement that is under way when it is stopped", async () => {
    let begun = (): void => undefined;
    const started = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const layers = new WritableLayers({
      running: () => [a],
      measure: (_, signal) =>
        new Promise((_resolve, reject) => {
          begun();
          signal.addEventListener("abort", () => {
            reject(new Error("stopped"));
          });
        }),
      log: recordingLog(),
    });
    layers.start();
    await started;
    await layers.stop();
  });

  describe("with endless layers", () => {
    const names = ["a", "b", "c", "d", "e"];
    /** `small` are measured at once, the others never; `given` are those whose measurement was ended. */
    function endless(small: string): {
      readonly layers: WritableLayers;
      readonly begun: string[];
      readonly given: string[];
      readonly running: Snapshot[];
    } {
      const begun: string[] = [];
      const given: string[] = [];
      const running = names.map((name) => snapshotOf({ id: idOf(name) }));
      const nameOf = (id: string): string => names.find((name) => idOf(name) === id) ?? "";
      const layers = new WritableLayers({
        running: () => running,
        measure: ({ id }, signal) => {
          begun.push(nameOf(id));
          if (small.includes(nameOf(id))) {
            return Promise.resolve({ timestamp: 1n, usedBytes: 100, inodes: 2 });
          }
          return new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => {
              given.push(nameOf(id));
              reject(new Error("ended"));
            });
          });
        },
        log: recordingLog(),
        now: () => 0,
        // The wait ends as soon as everything else has been done.
        pause: () => new Promise((resolve) => setImmediate(resolve)),
      });
      return { layers, begun, given, running };
    }

    test("measures the others beside them, and lets two of them continue", async () => {
      const { layers, begun, given } = endless("be");
      await layers.round();
      assert.deepEqual(begun, names);
      assert.deepEqual(given, ["d"]);
      assert.ok(["b", "e"].every((name) => layers.usageOf(idOf(name)) !== undefined));
      await layers.round();
      assert.equal(begun.length, names.length, "not begun twice");
      await layers.stop();
      assert.deepEqual(given, ["d", "a", "c"]);
    });

    test("ends the measurement of a container that has ended", async () => {
      const { layers, given, running } = endless("bcde");
      await layers.round();
      running.shift();
      await layers.round();
      assert.deepEqual(given, ["a"]);
      await layers.stop();
    });
  });

  test("begins with those that were never measured", async () => {
    const harness = new Harness();
    await harness.layers.round();
    harness.running = [a, b];
    harness.nowMs = 3_600_000;
    await harness.layers.round();
    assert.deepEqual(
      harness.measured.map(({ id }) => id),
      [a.id, b.id, a.id],
    );
  });
});

test("layerMeasurement() limits the wait for an engine that does not answer", async () => {
  const measure = layerMeasurement({
    host: () => ({ writableLayer: () => Promise.resolve(undefined) }),
    engine: {
      writableLayerBytes: (_, signal) => orAbort(new Promise<never>(() => undefined), signal),
    },
    engineLimitMs: 20,
  });
  const never = new AbortController().signal;
  await rejectsWith(measure(snapshotOf({ id: idOf("a") }), never), "timeout", /size container/);
  assert.equal(never.aborted, false);
});
