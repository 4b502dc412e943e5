import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { describe, test } from "node:test";
import type { LogOptions, TakeOutput } from "../../../../src/shim/ports/engine.js";
import { orAbort } from "../../../../src/lib/abort.js";
import { ApiWriter } from "../../../../src/shim/logs/api/api-writer.js";
import { gapNotice } from "../../../../src/shim/logs/gaps.js";
import { recordFromFile } from "../../../../src/shim/logs/lost-record.js";
import { until } from "../../../fakes/turns.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { containerId, randomOf, WrittenLog } from "../log-bench.js";

/** The engine's log: each message with the second of its time. */
class FakeLog {
  readonly messages: { readonly second: number; readonly text: string }[] = [];
  readonly expected: string[] = [];
  isRunning = true;
  /**
   * Docker 20.10 filters each message by its time, newer engines only the messages before the first new one.
   */
  filtersEach = true;
  requests = 0;
  /** Readers at the end of the log that wait for more. */
  waiting = 0;
  #wake: (() => void)[] = [];

  write(second: number, text: string): void {
    const fraction = String(this.messages.length).padStart(9, "0");
    const time = `${new Date(second * 1000).toISOString().slice(0, 19)}.${fraction}Z`;
    this.messages.push({ second, text: `${time} ${text}\n` });
    this.expected.push(`${time} stdout F ${text}\n`);
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** Lines that have their number as text, so many seconds apart. */
  writeLines(from: number, to: number, seconds = 1): void {
    for (let line = from; line < to; line += 1) this.write(1_770_000_000 + line * seconds, String(line));
  }

  writeAt(time: string, text: string): void {
    const second = Math.floor(Date.parse(`${time.slice(0, 19)}Z`) / 1000);
    this.messages.push({ second, text: `${time} ${text}\n` });
  }

  async *read({ sinceSeconds, follow, tail }: LogOptions, signal: AbortSignal): AsyncGenerator<Buffer> {
    this.requests += 1;
    let hasBegun = false;
    for (let index = Math.max(0, this.messages.length - (tail ?? Infinity)); ; index += 1) {
      while (index >= this.messages.length) {
        if (!follow || !this.isRunning) return;
        this.waiting += 1;
        try {
          await orAbort(new Promise<void>((wake) => this.#wake.push(wake)), signal);
        } finally {
          this.waiting -= 1;
        }
      }
      const message = this.messages[index];
      if (message === undefined) continue;
      if (message.second < sinceSeconds && (this.filtersEach || !hasBegun)) continue;
      hasBegun = true;
      yield Buffer.from(message.text);
    }
  }
}

class ApiBench extends WrittenLog {
  readonly source = new FakeLog();
  /** Reports a clock that was set back, as ClockSteps does. */
  setBack: () => void = () => undefined;

  static async open(): Promise<ApiBench> {
    const bench = new ApiBench(await temporaryDirectory());
    await bench.putRecord();
    return bench;
  }

  /** Makes a new record from the log file. */
  async recover(): Promise<void> {
    const record = await recordFromFile(containerId, this.target);
    assert.ok(record);
    await this.putRecord(record);
  }

  async start(): Promise<void> {
    const written = await this.openOutput();
    const engine = {
      containerLogs: async (_id: string, options: LogOptions, signal: AbortSignal) => ({
        readOutput: async (take: TakeOutput) => {
          for await (const data of this.source.read(options, signal)) await take("stdout", data, true);
        },
        close: () => undefined,
      }),
    };
    const clockSteps = { onSetBack: (listener: () => void) => ((this.setBack = listener), () => undefined) };
    const source = { engine, containerId, tty: false, logDriver: "local", clockSteps };
    const writer = new ApiWriter(this.output, written, source, this.log);
    writer.start();
    this.writer = writer;
  }
}

describe("ApiWriter", () => {
  test("writes a line at least once when Docker has it twice", async () => {
    await using bench = await ApiBench.open();
    const write = (text: string): void => {
      bench.source.writeAt("2026-02-02T02:40:00.000000001Z", text);
    };
    for (const text of ["a", "b", "b"]) write(text);
    await bench.run();
    write("c");
    await bench.run();
    const texts = linesOf(readFileSync(bench.path)).map((line) => line.trimEnd().split(" ").at(-1));
    assert.deepEqual(texts, ["a", "b", "b", "b", "c"]);
  });

  for (const filtersEach of [true, false]) {
    const name = `an engine that filters ${filtersEach ? "each line" : "up to the first line"}`;

    test(`a clock that is set back while nothing is read: every line once, with ${name}`, async () => {
      for (const [back, lines] of [
        [5, 3],
        [100, 3],
        [100, 99],
        [3600, 1],
      ] as const) {
        await using bench = await ApiBench.open();
        bench.source.filtersEach = filtersEach;
        let second = 1_770_000_000;
        const write = (count: number): void => {
          for (let line = 0; line < count; line += 1) bench.source.write((second += 1), String(line));
        };
        write(20);
        await bench.run();
        second -= back;
        write(lines);
        for (let round = 0; round < 4; round += 1) {
          await bench.run();
          assert.equal(bench.written, bench.source.expected.join(""), `${String(back)}: ${String(round)}`);
          write(2);
        }
        assert.deepEqual(bench.log.lines, []);
      }
    });

    test(`a clock that is set back again and again, and kills at any point: every line once, with ${name}`, async () => {
      const rounds = process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 100 : 5;
      for (let seed = 1; seed <= rounds; seed += 1) {
        await using bench = await ApiBench.open();
        bench.source.filtersEach = filtersEach;
        const random = randomOf(seed);
        let second = 1_770_000_000;
        await bench.start();
        for (let step = 0; step < 10; step += 1) {
          // Noticed at once by the writer, or at the next start.
          if (random() < 0.4) second -= Math.floor(random() * 60);
          for (let line = Math.floor(random() * 20); line >= 0; line -= 1) {
            if (random() < 0.3) second += Math.floor(random() * 3);
            bench.source.write(second, `${String(line)} of ${String(step)}`);
          }
          bench.setBack();
          await bench.writer.finish();
          const record = readFileSync(bench.recordPath, "utf8");
          const size = (JSON.parse(record) as { sink: { size: number } }).sink.size;
          bench.source.write(second, "after the record");
          await bench.run();
          await bench.writer.close();
          const log = readFileSync(bench.path);
          writeFileSync(bench.recordPath, record);
          const kept = size + Math.floor(random() * (log.length - size + 1));
          writeFileSync(bench.path, log.subarray(0, kept));
          await bench.start();
        }
        await bench.writer.finish();
        assert.equal(bench.written, bench.source.expected.join(""), `seed ${String(seed)}`);
        assert.deepEqual(bench.log.lines, []);
      }
    });

    test(`a clock that is set back while the log is followed: every line once, with ${name}`, async () => {
      await using bench = await ApiBench.open();
      bench.source.filtersEach = filtersEach;
      bench.source.writeLines(0, 10);
      await bench.start();
      const isWhole = (): boolean => bench.written === bench.source.expected.join("");
      await until("the first lines", isWhole);
      for (const back of [1_769_999_000, 1_769_998_000]) {
        bench.setBack();
        for (let line = 0; line < 10; line += 1) bench.source.write(back + line, String(line));
        await until("the lines after the clock was set back", isWhole);
      }
      // Written lines may be requested again, because the clock was set back.
      await until("it follows again", () => bench.source.waiting === 1);
      const before = bench.source.requests;
      bench.source.write(1_769_998_020, "last");
      await until("the last line", isWhole);
      assert.equal(bench.source.requests, before, "it is followed");
      await bench.writer.finish();
      assert.deepEqual(bench.log.lines, []);
    });
  }

  test("a clock that is set back, and older lines that the engine has dropped: a gap, and all lines that are left", async () => {
    await using bench = await ApiBench.open();
    bench.source.writeLines(0, 10);
    await bench.run();
    for (let line = 0; line < 10; line += 1) bench.source.write(1_769_000_000 + line, String(line));
    bench.source.messages.splice(0, 13);
    for (let round = 0; round < 2; round += 1) {
      await bench.run();
      assertOneGap(bench, 10, 13);
    }
  });

  test("the end of a followed container takes one request", async () => {
    await using bench = await ApiBench.open();
    bench.source.write(1_770_000_000, "line");
    await bench.start();
    await until("the line", () => bench.written === bench.source.expected.join(""));
    await until("the writer waits for more lines", () => bench.source.waiting === 1);
    const before = bench.source.requests;
    await bench.writer.finish();
    assert.equal(bench.source.requests, before + 1);
  });

  for (const [name, seconds] of [
    ["the last line", [0, 1, 2]],
    ["the last line, after the clock was set back", [500, 501, 0]],
  ] as const) {
    test(`goes on behind a notice when the engine drops ${name} just before the log is followed`, async () => {
      await using bench = await ApiBench.open();
      const write = (second: number): void => {
        bench.source.write(1_770_000_000 + second, String(second));
      };
      for (const second of seconds) write(second);
      const read = bench.source.read.bind(bench.source);
      let isDropped = false;
      bench.source.read = (options, signal) => {
        if (options.follow && !isDropped) {
          isDropped = true;
          bench.source.messages.splice(0);
          for (let second = 100; second < 110; second += 1) write(second);
        }
        return read(options, signal);
      };
      await bench.start();
      await until("the lines are dropped", () => isDropped);
      await until("the last new line", () => bench.written.endsWith(bench.source.expected.at(-1) ?? ""));
      assertOneGap(bench, seconds.length, seconds.length);
      await bench.writer.finish();
    });
  }

  test("marks nothing when the engine has dropped only written lines", async () => {
    await using bench = await ApiBench.open();
    bench.source.writeLines(0, 10, 0);
    await bench.run();
    bench.source.writeLines(10, 20, 0);
    bench.source.messages.splice(0, 5);
    for (let time = 0; time < 2; time += 1) {
      await bench.run();
      assert.equal(bench.written, bench.source.expected.join(""));
    }
    assert.deepEqual(bench.log.lines, []);
  });

  for (const written of [1, 10]) {
    test(`continues after ${String(written)} lines when the record was lost, also when they are from Docker's file`, async () => {
      await using bench = await ApiBench.open();
      bench.source.writeLines(0, written, 0);
      await bench.run();
      // Docker's file has times without trailing zeros; a kill has left half a line.
      const last = "2026-02-02T02:40:00.00001Z stdout F ten\n";
      writeFileSync(bench.path, `${bench.written}${last}2026-02-0`);
      bench.source.writeAt("2026-02-02T02:40:00.000010000Z", "ten");
      bench.source.write(1_770_000_001, "next");
      rmSync(bench.recordPath);
      await bench.recover();
      await bench.run();
      const texts = linesOf(readFileSync(bench.path)).map((line) => line.split(" ").slice(1).join(" "));
      const lines = Array.from({ length: written }, (_, line) => `stdout F ${String(line)}\n`);
      assert.deepEqual(texts, [...lines, "stdout F ten\n", "stdout F next\n"]);
      assert.deepEqual(bench.log.lines, []);
    });
  }

  test("loses no line behind a gap notice with a time of Docker's file when the record was lost", async () => {
    await using bench = await ApiBench.open();
    await bench.run();
    // Docker's file has times without trailing zeros.
    const notice = gapNotice("2026-02-02T02:40:00.00001Z", 1);
    writeFileSync(bench.path, notice);
    bench.source.writeAt("2026-02-02T02:40:00.000009000Z", "dropped before");
    bench.source.writeAt("2026-02-02T02:40:00.000010000Z", "first");
    bench.source.writeAt("2026-02-02T02:40:00.000010001Z", "second");
    rmSync(bench.recordPath);
    await bench.recover();
    await bench.run();
    assert.deepEqual(linesOf(readFileSync(bench.path)), [
      notice,
      "2026-02-02T02:40:00.000010000Z stdout F first\n",
      "2026-02-02T02:40:00.000010001Z stdout F second\n",
    ]);
  });

  test("makes no record for a file that is not a log, and does not change it", async () => {
    for (const content of ["something\n", "something", "2026", "2026-02-02T02:40:00.1Z stdout F a\nb\nc"]) {
      await using bench = await ApiBench.open();
      writeFileSync(bench.path, content);
      const record = await recordFromFile(containerId, bench.target);
      // A killed writer can leave half of a first line.
      if (content === "2026") assert.equal(record?.sink.size, 0);
      else assert.deepEqual([record, bench.written], [undefined, content]);
    }
  });

  const drops: readonly (readonly [string, number, number])[] = [
    ["all written lines", 0, 14],
    ["the last written lines", 8, 14],
    ["written lines in the middle", 3, 14],
  ];
  for (const [name, from, to] of drops) {
    test(`marks a gap once, and loses no line after it, after kills at any point: dropped are ${name}`, async () => {
      await using bench = await ApiBench.open();
      const second = (line: number): number => 1_770_000_000 + Math.floor(line / 4);
      for (let line = 0; line < 10; line += 1) bench.source.write(second(line), String(line));
      await bench.run();
      for (let line = 10; line < 20; line += 1) bench.source.write(second(line), String(line));
      bench.source.messages.splice(from, to - from);
      bench.saved.splice(0, bench.saved.length - 1);
      await bench.run();
      const whole = readFileSync(bench.path);
      assertOneGap(bench, 10, to);
      const versions = [...bench.saved];
      for (const [index, version] of versions.entries()) {
        // As if it had been killed between two records, after it had written that much.
        const until = versions[index + 1]?.sink.size ?? whole.length;
        for (const size of cutsOf(whole, version.sink.size, until)) {
          writeFileSync(bench.recordPath, JSON.stringify(version));
          writeFileSync(bench.path, whole.subarray(0, size));
          await bench.run();
          assert.equal(
            bench.written,
            whole.toString(),
            `record ${String(index)} of ${String(version.sink.size)} bytes, file of ${String(size)}`,
          );
        }
      }
    });
  }
});

/** The log lacks the lines of the source from one up to another, and has a notice in their place. */
function assertOneGap(bench: ApiBench, from: number, to: number): void {
  const { expected } = bench.source;
  const lines = linesOf(readFileSync(bench.path));
  assert.match(lines[from] ?? "", /gap 1 of this log/);
  assert.deepEqual(lines.toSpliced(from, 1), [...expected.slice(0, from), ...expected.slice(to)]);
}

function linesOf(log: Buffer): string[] {
  return log.toString().match(/.*\n/g) ?? [];
}

/** Sizes between the two: after each line, and within it. */
function cutsOf(log: Buffer, from: number, to: number): readonly number[] {
  const cuts = [from];
  for (let at = from; at < to;) {
    const end = log.indexOf(0x0a, at) + 1;
    cuts.push(at + Math.floor((end - at) / 2), end);
    at = end;
  }
  return cuts;
}
