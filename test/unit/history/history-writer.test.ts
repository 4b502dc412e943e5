import assert from "node:assert/strict";
import { appendFile, mkdir, readdir, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, mock, test } from "node:test";
import type { CallRecord, HistoryRecord } from "../../../src/history/history-record.js";
import { HistoryWriter, type HistoryWriterOptions } from "../../../src/history/history-writer.js";
import { readHistory, type Selection } from "../../../src/history/read-history.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { openFiles } from "../../support/processes.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const mebibyte = 1024 ** 2;
const day = 24 * 3600 * 1000;

function call(at: number, more: Partial<CallRecord> = {}): CallRecord {
  const subject = { pod: "default/web", sandboxId: "5".repeat(64) };
  return { kind: "call", at, rpc: "StartContainer", ms: 2, code: "OK", subject, spans: [], ...more };
}

/** Nothing is written but by `flush()` and `close()`. */
function writerIn(
  directory: string,
  options: Partial<HistoryWriterOptions> = {},
): { readonly writer: HistoryWriter; readonly log: ReturnType<typeof recordingLog> } {
  const log = recordingLog();
  const limits = { bytes: mebibyte, ageMs: 7 * day, delayMs: 2 ** 30 };
  return { writer: new HistoryWriter({ directory, log, ...limits, ...options }), log };
}

const timesIn = async (directory: string): Promise<readonly number[]> =>
  (await readHistory(directory)).records.map(({ at }) => at);

describe("the history on disk", () => {
  test("is what was added, for root alone, also while it is written", async () => {
    await using parent = await temporaryDirectory();
    const directory = join(parent.path, "history");
    const { writer } = writerIn(directory);
    const span = { what: 'CNI plugin "bridge" ADD', kind: "plugin", at: 1, ms: 3, error: "no" } as const;
    const added: readonly HistoryRecord[] = [
      call(1, {
        ...{ code: "UNKNOWN", error: "no", exitCode: 1, repeats: 2, droppedSpans: 3 },
        spans: [{ ...span, below: [{ ...span, kind: "wait" }] }],
      }),
      {
        kind: "exit",
        at: 2,
        exitCode: 137,
        oomKilled: true,
        ms: 5,
        execs: 4,
        failedExecs: 3,
        subject: { containerId: "c" },
      },
    ];
    for (const record of added) writer.add(record);
    await writer.flush();
    assert.deepEqual((await readHistory(directory)).records, added);
    assert.equal((await stat(directory)).mode & 0o777, 0o700);
    const [name = ""] = await readdir(directory);
    assert.equal((await stat(join(directory, name))).mode & 0o777, 0o600);
    writer.add(call(3));
    await writer.close();
    assert.deepEqual(await timesIn(directory), [1, 2, 3]);
  });

  test("is written a moment later by a timer that keeps no process alive, and only when there is something", async () => {
    await using directory = await temporaryDirectory();
    const timers = process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    const { writer } = writerIn(directory.path, { delayMs: 1 });
    writer.add(call(1));
    assert.equal(process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length, timers);
    while ((await timesIn(directory.path)).length === 0)
      await new Promise((resolve) => setTimeout(resolve, 2));
    await writer.close();
  });

  test("is closed while nothing is written, so that its file system may become read-only, and goes on", async () => {
    await using directory = await temporaryDirectory();
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const { writer } = writerIn(directory.path);
      const isOpen = async (): Promise<boolean> =>
        (await openFiles(process.pid)).some((path) => path.startsWith(directory.path));
      for (let at = 1; at <= 2; at++) {
        writer.add(call(at));
        await writer.flush();
        assert.ok(await isOpen());
        mock.timers.tick(5000);
        await writer.flush();
        assert.ok(!(await isOpen()));
      }
      const [name = ""] = await readdir(directory.path);
      await rm(join(directory.path, name));
      writer.add(call(3));
      await writer.flush();
      writer.add(call(4));
      await writer.close();
      const { records } = await readHistory(directory.path);
      assert.deepEqual(
        records.map((record) => (record.kind === "lost" ? `${record.count} lost` : record.at)),
        ["1 lost", 4],
      );
    } finally {
      mock.timers.reset();
    }
  });

  test("of a killed process is read without its torn line, and goes on in the same file", async () => {
    await using directory = await temporaryDirectory();
    const { writer } = writerIn(directory.path);
    writer.add(call(1));
    await writer.flush();
    const [name = ""] = await readdir(directory.path);
    await appendFile(join(directory.path, name), '{"kind":"call","at":2,"rp');
    assert.deepEqual(await timesIn(directory.path), [1]);
    const { writer: next } = writerIn(directory.path);
    next.add(call(3));
    await next.close();
    assert.deepEqual(await timesIn(directory.path), [1, 3]);
    assert.deepEqual(await readdir(directory.path), [name]);
    await writer.close();
  });

  test("of 10,000 pods stays within its bytes, and has the newest", async () => {
    await using directory = await temporaryDirectory();
    const { writer } = writerIn(directory.path);
    const spans = Array.from({ length: 5 }, (_, at) => ({
      ...{ what: `inspect container "${"a".repeat(64)}"`, kind: "engine", at, ms: 1 },
    })) as CallRecord["spans"];
    let largest = 0;
    for (let pod = 1; pod <= 10_000; pod++) {
      writer.add(call(pod, { spans }));
      if (pod % 50 !== 0) continue;
      await writer.flush();
      if (pod % 1000 !== 0) continue;
      const sizes = (await readdir(directory.path)).map(async (name) => stat(join(directory.path, name)));
      const total = (await Promise.all(sizes)).reduce((sum, { size }) => sum + size, 0);
      largest = Math.max(largest, total);
    }
    await writer.close();
    assert.ok(largest <= mebibyte && largest > mebibyte / 2, String(largest));
    assert.equal((await timesIn(directory.path)).at(-1), 10_000);
  });

  test("loses files that are too old when another one is begun", async () => {
    await using directory = await temporaryDirectory();
    const { writer } = writerIn(directory.path);
    writer.add(call(1));
    await writer.close();
    const [name = ""] = await readdir(directory.path);
    const long = new Date(Date.now() - 8 * day);
    await utimes(join(directory.path, name), long, long);
    const { writer: later } = writerIn(directory.path, { now: () => Date.now() + day });
    later.add(call(2));
    await later.close();
    assert.deepEqual(await timesIn(directory.path), [2]);
  });

  test("that a later release has written is named, left, and counts", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "v2-00000007.jsonl");
    await writeFile(path, `${"x".repeat(mebibyte)}\n`);
    await writeFile(join(directory.path, "notes.txt"), "of an operator");
    const { writer } = writerIn(directory.path);
    for (let at = 1; at <= 2; at++) {
      writer.add(call(at, { error: "x".repeat(40_000) }));
      writer.add(call(at, { error: "x".repeat(40_000) }));
      await writer.flush();
    }
    await writer.close();
    const { records, later } = await readHistory(directory.path);
    assert.deepEqual(later, [path]);
    assert.deepEqual(
      records.map(({ at }) => at),
      [2, 2],
    );
    assert.equal((await readdir(directory.path)).length, 3);
  });

  test("that cannot be written is said once, counted, and goes on when it can be", async () => {
    await using parent = await temporaryDirectory();
    const directory = join(parent.path, "history");
    await mkdir(directory);
    // A link is not followed.
    await symlink("/dev/null", join(directory, "v1-00000001.jsonl"));
    const { writer, log } = writerIn(directory, { now: () => 9 });
    for (let at = 1; at <= 3; at++) {
      writer.add(call(at));
      await writer.flush();
    }
    assert.deepEqual(
      log.lines.map(({ level, message }) => [level, message]),
      [["warn", "cannot write the history"]],
    );
    await rm(join(directory, "v1-00000001.jsonl"));
    writer.add(call(4));
    await writer.close();
    assert.deepEqual((await readHistory(directory)).records, [{ kind: "lost", at: 9, count: 3 }, call(4)]);
    const { level, message, fields } = log.lines[1] ?? assert.fail();
    assert.deepEqual([level, message, fields], ["info", "the history is written again", { lost: 3 }]);
  });

  test("of a disk that hangs waits for a bounded number of bytes", async () => {
    await using directory = await temporaryDirectory();
    const { writer } = writerIn(directory.path);
    for (let at = 1; at <= 1000; at++) writer.add(call(at, { error: "x".repeat(1000) }));
    await writer.flush();
    writer.add(call(1001));
    await writer.close();
    const { records } = await readHistory(directory.path);
    const lost = records.find((record) => record.kind === "lost");
    assert.ok(lost !== undefined && lost.count > 800);
    assert.equal(records.length - 1 + lost.count, 1001);
  });

  test("has no line that is too long: a call loses its spans, which are counted", async () => {
    await using directory = await temporaryDirectory();
    const { writer } = writerIn(directory.path);
    const span = { what: "x".repeat(500), kind: "engine", at: 0, ms: 1 } as const;
    writer.add(call(1, { spans: Array.from({ length: 199 }, () => ({ ...span, below: [span] })) }));
    await writer.close();
    const [record] = (await readHistory(directory.path)).records;
    assert.deepEqual(record, call(1, { droppedSpans: 398 }));
  });

  test("is read from its latest bytes alone, and by a text, where that is asked for", async () => {
    await using directory = await temporaryDirectory();
    const line = (at: number): string => `${JSON.stringify(call(at, { rpc: `rpc${String(at % 2)}` }))}\n`;
    const { length } = line(1);
    for (const [number, times] of [
      [1, [1, 2]],
      [2, [3, 4, 5]],
      [3, [6]],
    ] as const)
      await writeFile(join(directory.path, `v1-0000000${String(number)}.jsonl`), times.map(line).join(""));
    const read = async (selection: Selection) =>
      (await readHistory(directory.path, selection)).records.map(({ at }) => at);
    assert.deepEqual(await read({ latestBytes: 3 * length }), [4, 5, 6]);
    assert.deepEqual(await read({ latestBytes: 3 * length - 1 }), [5, 6]);
    assert.deepEqual(await read({ latestBytes: 6 * length, mentions: "rpc1" }), [1, 3, 5]);
    assert.equal((await readHistory(directory.path, { latestBytes: 2 * length })).olderBytes, 4 * length);
  });

  test("is empty where there is none", async () => {
    await using directory = await temporaryDirectory();
    assert.deepEqual(await readHistory(join(directory.path, "none")), {
      ...{ records: [], later: [], olderBytes: 0 },
    });
  });
});
