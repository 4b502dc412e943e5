import assert from "node:assert/strict";
import {
  appendFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { Entry } from "./fake-docker-log.js";
import { CompressedLog } from "../../../../src/shim/logs/file/docker-log-file.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { LogBench, randomOf } from "../log-bench.js";
import { pluck } from "../../../support/pluck.js";

const line = (text: string): Entry => ({ stream: "stdout", text: `${text}\n` });

describe("FileWriter", () => {
  test("writes present entries, new entries and the end, in order", async () => {
    await using bench = await LogBench.open();
    bench.docker.write([line("before")]);
    await bench.start();
    bench.docker.write([line("after"), { stream: "stderr", text: "half" }]);
    await bench.writer.finish();
    assert.equal(bench.written, bench.docker.expected.join(""));
    assert.equal(bench.records.get(bench.output.record.containerId)?.finished, true);
  });

  test("finish() returns although the log file cannot be closed", async () => {
    await using bench = await LogBench.open();
    bench.docker.write([line("all")]);
    await bench.start();
    const close = bench.output.close.bind(bench.output);
    bench.output.close = async () => {
      await close();
      throw new Error("EIO");
    };
    await bench.writer.finish();
    assert.equal(bench.written, bench.docker.expected.join(""));
    assert.deepEqual(pluck(bench.log.lines, "message"), ["cannot close container log"]);
  });

  for (const compress of [false, true]) {
    test(`loses no line of rotations between two processes, ${compress ? "compressed" : "plain"}`, async () => {
      await using bench = await LogBench.open({ compress });
      await bench.start();
      bench.docker.write([line("1"), line("2")]);
      await bench.writer.close();
      for (let count = 0; count < 4; count += 1) {
        bench.docker.rotate();
        bench.docker.write([line(`${String(count)}a`), line(`${String(count)}b`)]);
      }
      await bench.run();
      assert.equal(bench.written, bench.docker.expected.join(""));
    });
  }

  test("writes a notice where the engine has dropped lines, and counts the gaps", async () => {
    await using bench = await LogBench.open({ maxFiles: 2 });
    await bench.start();
    bench.docker.write([line("kept 1")]);
    await bench.writer.finish();
    for (const text of ["lost", "kept 2", "kept 3"]) {
      bench.docker.rotate();
      bench.docker.write([line(text)]);
    }
    await bench.run();
    const lines = bench.written.trimEnd().split("\n");
    assert.deepEqual(
      lines.map((one) => one.replace(/^\S+ /, "").replace(/missing.*(\(.*\)).*/, "missing $1")),
      [
        "stdout F kept 1",
        "stderr F dockershim: log lines are missing (gap 1 of this log)",
        "stdout F kept 2",
        "stdout F kept 3",
      ],
    );
    assert.equal(bench.output.record.gaps, 1);
  });

  const damages: readonly (readonly [string, (archive: string) => void])[] = [
    ["truncated", (archive) => truncateSync(archive, statSync(archive).size - 12)],
    ["empty", (archive) => truncateSync(archive, 0)],
    ["no gzip", (archive) => writeFileSync(archive, "no gzip at all")],
  ];
  for (const [name, damage] of damages) {
    for (const age of [3, 2]) {
      test(`a damaged archive (${name}, the ${age === 3 ? "oldest" : "second oldest"}) is a gap, and the log continues`, async () => {
        await using bench = await LogBench.open({ compress: true });
        for (let count = 0; count < 3; count += 1) {
          bench.docker.write([line(`${String(count)}a`), line(`${String(count)}b`)]);
          bench.docker.rotate();
        }
        bench.docker.write([line("newest")]);
        damage(`${bench.docker.path}.${String(age)}.gz`);
        for (let start = 0; start < 2; start += 1) {
          await bench.run();
        }
        const texts = bench.written.trimEnd().split("\n");
        assert.equal(texts.filter((one) => one.includes("gap 1 of this log")).length, 1);
        assert.equal(bench.output.record.gaps, 1);
        const isDamaged = (one: string): boolean => one.includes(` F ${String(3 - age)}`);
        const kept = texts.filter((one) => !one.includes("gap 1") && !isDamaged(one));
        const expected = bench.docker.expected.filter((one) => !isDamaged(one));
        assert.equal(`${kept.join("\n")}\n`, expected.join(""));
        const reports = bench.log.lines.filter(({ message }) => message.includes("archive"));
        assert.equal(reports.length, 1);
        assert.ok(!pluck(bench.log.lines, "message").join().includes("trying again"));
      });
    }
  }

  test("an archive that unpacks to more than it can have is a gap", async () => {
    await using bench = await LogBench.open({ compress: true, archiveLimitBytes: 64 * 1024 });
    bench.docker.write([line("first")]);
    bench.docker.rotate();
    writeFileSync(`${bench.docker.path}.1.gz`, gzipSync(Buffer.alloc(200 * 1024 * 1024, " ")));
    bench.docker.write([line("last")]);
    await bench.run();
    assert.match(bench.written, /gap 1 of this log.*\n\S+ stdout F last\n$/);
  });

  test("an archive is unpacked to no more than its limit", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "x.gz");
    writeFileSync(path, gzipSync(Buffer.alloc(200 * 1024 * 1024)));
    const log = await CompressedLog.open(path, 1000);
    const buffer = Buffer.alloc(64 * 1024);
    let bytes = 0;
    for (let read = -1; read !== 0; bytes += read) read = await log.read(buffer, bytes);
    await log.close();
    assert.ok(bytes < 16 * 1024 * 1024);
    assert.match(log.damage ?? "", /more than 1000 bytes/);
  });

  test("a log that Docker empties when it is full: no gap when all entries were read, else a gap", async () => {
    await using bench = await LogBench.open({ emptiedAtBytes: 150 });
    await bench.start();
    const empty = (): void => truncateSync(bench.docker.path);
    bench.docker.write([line("1"), line("2"), line("3")]);
    await bench.writer.finish();
    empty();
    bench.docker.write([line("4")]);
    await bench.run();
    assert.match(bench.written, /gap 1/, "a restart cannot tell");
    const content = bench.written.split("\n").filter((one) => !one.includes("dockershim:"));
    assert.equal(content.join("\n"), bench.docker.expected.join(""));
  });

  test("reopen: all that was written before is in the old file, all after in the new one", async () => {
    await using bench = await LogBench.open();
    await bench.start();
    bench.docker.write([line("old")]);
    const rotated = `${bench.path}.20260102-150405`;
    renameSync(bench.path, rotated);
    await bench.writer.reopen();
    bench.docker.write([line("new")]);
    await bench.writer.finish();
    assert.equal(readFileSync(rotated, "utf8") + bench.written, bench.docker.expected.join(""));
  });

  test("a rename that is undone after a kill loses no line", async () => {
    await using bench = await LogBench.open();
    await bench.start();
    bench.docker.write([line("old")]);
    renameSync(bench.path, `${bench.path}.1`);
    await bench.writer.reopen();
    bench.docker.write([line("new")]);
    await bench.writer.finish();
    renameSync(`${bench.path}.1`, bench.path);
    await bench.run();
    assert.equal(bench.written, bench.docker.expected.join(""));
  });

  test("a kill between rename and reopen: continues in the renamed file", async () => {
    await using bench = await LogBench.open();
    await bench.start();
    bench.docker.write([line("old")]);
    await bench.writer.close();
    renameSync(bench.path, `${bench.path}.1`);
    bench.docker.write([line("more")]);
    await bench.run();
    assert.deepEqual(readdirSync(dirname(bench.path)), ["0.log.1"]);
    assert.equal(readFileSync(`${bench.path}.1`, "utf8"), bench.docker.expected.join(""));
  });

  test("a removed log file is made again", async () => {
    await using bench = await LogBench.open();
    await bench.start();
    bench.docker.write([line("gone")]);
    await bench.writer.finish();
    rmSync(bench.path);
    bench.docker.write([line("there")]);
    await bench.run();
    assert.equal(bench.written, bench.docker.expected.slice(1).join(""));
  });

  /**
   * The log file when the previous process had recorded ten lines, had written thirty more, and was killed.
   */
  const killedBehindRecord = async (bench: LogBench): Promise<void> => {
    await bench.start();
    bench.docker.write(Array.from({ length: 10 }, (_, index) => line(`recorded ${String(index)}`)));
    await bench.writer.finish();
    const record = readFileSync(bench.recordPath);
    await bench.start();
    bench.docker.write(Array.from({ length: 30 }, (_, index) => line(`behind ${String(index)}`)));
    await bench.writer.finish();
    writeFileSync(bench.recordPath, record);
    bench.docker.write([line("after the kill")]);
  };

  for (const kept of [1, 5, 10, 11, 12, 20, 29, 30, 35]) {
    test(`a truncated log with ${String(kept)} lines since then continues behind its last line`, async () => {
      await using bench = await LogBench.open();
      await killedBehindRecord(bench);
      // In place, as `truncate` and agents do it.
      writeFileSync(bench.path, bench.docker.expected.slice(40 - kept, 40).join(""));
      await bench.run();
      assert.equal(bench.written, bench.docker.expected.slice(40 - kept).join(""));
    });
  }

  test("a log to which another program has written loses no line", async () => {
    await using bench = await LogBench.open();
    await killedBehindRecord(bench);
    appendFileSync(bench.path, "2026-01-02T15:04:05Z stdout F a foreign line\n");
    await bench.run();
    for (const one of bench.docker.expected) assert.ok(bench.written.includes(one), one);
    const reports = bench.log.lines.filter(({ message }) => message.includes("another program changed"));
    assert.equal(reports.length, 1);
  });

  test("random output, rotations, kills and reopenings: every byte once, in order", async () => {
    const rounds = process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 300 : 4;
    for (let seed = 1; seed <= rounds; seed += 1) await randomLife(seed);
  });
});

async function randomLife(seed: number): Promise<void> {
  const random = randomOf(seed);
  await using bench = await LogBench.open({ compress: seed % 4 === 0 });
  let rotated = "";
  await bench.start();
  for (let step = 0; step < 12; step += 1) {
    bench.docker.write(Array.from({ length: Math.floor(random() * 40) }, () => randomEntry(random)));
    const choice = random();
    if (choice < 0.3) bench.docker.rotate();
    else if (choice < 0.5) {
      // As kubelets rotate; the old file is kept here.
      const name = join(dirname(bench.path), `0.log.${String(step)}`);
      renameSync(bench.path, name);
      await bench.writer.reopen();
      rotated += readFileSync(name, "utf8");
    } else if (choice < 0.8) {
      if (random() < 0.5) await bench.writer.finish();
      await bench.kill(random);
      await bench.start();
    }
  }
  await bench.writer.finish();
  assertSameLines(rotated + bench.written, bench.docker.expected.join(""), `seed ${String(seed)}`);
  assert.deepEqual([...bench.log.linesAt("warn"), ...bench.log.linesAt("error")], []);
}

/** The first difference only: the whole texts are long. */
function assertSameLines(actual: string, expected: string, message: string): void {
  if (actual === expected) return;
  const wanted = expected.split("\n");
  const lines = actual.split("\n");
  const index = lines.findIndex((line, at) => line !== wanted[at]);
  const around = (all: readonly string[]): readonly string[] =>
    all.slice(Math.max(0, index - 1), index + 2).map((line) => line.slice(0, 80));
  const where = `${message}, line ${String(index)} of ${String(wanted.length)}`;
  assert.deepEqual(around(lines), around(wanted), where);
}

const odd = ["ä€😀", "\t\r\u0001\u007f", '"quoted" \\n', "<&>\u2028"];
const texts = ["", "x", ...odd, "y".repeat(300), "z".repeat(16384)];

function randomEntry(random: () => number): Entry {
  const text = texts[Math.floor(random() * texts.length)] ?? "";
  return {
    stream: random() < 0.5 ? "stdout" : "stderr",
    text: random() < 0.8 || text === "" ? `${text}\n` : text,
  };
}
