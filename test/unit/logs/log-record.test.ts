import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parseRecord } from "../../../src/lib/files/record-format.js";
import { type LogRecord, logRecordType, LogRecords, newRecord } from "../../../src/shim/logs/log-record.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { idOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const id = idOf("ab");
const opened = (record: LogRecord): LogRecord => ({
  ...record,
  source: "file",
  sink: { inode: "7", size: 0 },
});

test("open() removes temporary files of a killed process, and nothing else", async () => {
  await using root = await temporaryDirectory();
  const logs = join(root.path, "logs");
  mkdirSync(logs);
  for (const name of [`${idOf("ab")}.unpacked`, `.dockershim-${"0".repeat(16)}`, "other.unpacked"]) {
    writeFileSync(join(logs, name), "");
  }
  await LogRecords.open(logs, recordingLog(), join(root.path, "quarantine"));
  assert.deepEqual(readdirSync(logs), ["other.unpacked"]);
});

test("a position that cannot be stored leaves no temporary file, and the error names the record", async () => {
  await using root = await temporaryDirectory();
  const logs = join(root.path, "logs");
  const records = await LogRecords.open(logs, recordingLog(), join(root.path, "quarantine"));
  mkdirSync(join(logs, `${id}.json`));
  const record = opened(newRecord(id, { directory: root.path, path: join(root.path, "0.log") }));
  await assert.rejects(records.move(record), { message: new RegExp(`write.*${id}`) });
  assert.deepEqual(readdirSync(logs), [`${id}.json`]);
});

/** A directory is where the record was. Returns what undoes that. */
function refuseToStore({ root }: { readonly root: { readonly path: string } }): () => void {
  const path = join(root.path, "logs", `${id}.json`);
  rmSync(path);
  mkdirSync(path);
  return () => rmdirSync(path);
}

describe("move()", () => {
  /** Records that store what may wait when they are told. */
  async function setUp() {
    const root = await temporaryDirectory();
    const log = recordingLog();
    const records = await LogRecords.open(join(root.path, "logs"), log, join(root.path, "quarantine"), {
      delayMs: 3_600_000,
    });
    const path = join(root.path, "logs", `${id}.json`);
    const fresh = newRecord(id, { directory: root.path, path: join(root.path, "0.log") });
    const stored = (): LogRecord | undefined =>
      existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as LogRecord) : undefined;
    return { root, records, fresh, stored, log, [Symbol.asyncDispose]: () => root[Symbol.asyncDispose]() };
  }
  const at = (record: LogRecord, offset: number): LogRecord => ({
    ...record,
    position: { ...record.position, file: "first", offset },
    sink: { ...record.sink, size: offset },
  });

  test("counts at once, and stores later what goes on from the position before", async () => {
    await using bed = await setUp();
    const { records, fresh, stored } = bed;
    await records.move(fresh);
    assert.deepEqual([records.get(id), stored()], [fresh, undefined]);
    const file = opened(fresh);
    await records.move(file);
    assert.deepEqual(stored(), file);
    const ended = { ...at(file, 200), finished: true };
    for (const moved of [at(file, 100), ended]) {
      await records.move(moved);
      assert.deepEqual([records.get(id), stored()], [moved, file]);
    }
    await records.storeLate();
    assert.deepEqual(stored(), ended);
    await records.move(at(file, 300));
    await records.remove(id);
    await records.storeLate();
    assert.deepEqual([records.get(id), stored(), bed.log.lines], [undefined, undefined, []]);
  });

  test("tries again to store what could not be stored, and logs each failure once", async () => {
    await using bed = await setUp();
    const { records, fresh, stored } = bed;
    const late = at(opened(fresh), 100);
    await records.put(opened(fresh));
    await records.move(late);
    const canStore = refuseToStore(bed);
    await records.storeLate();
    await records.storeLate();
    assert.deepEqual(
      bed.log.lines.map(({ message }) => message),
      ["cannot store a record"],
    );
    canStore();
    await records.storeLate();
    assert.deepEqual(stored(), late);
  });

  test("does not store later what a flushed record replaces", async () => {
    await using bed = await setUp();
    const { records, fresh, stored } = bed;
    const file = opened(fresh);
    await records.put(file);
    const late = at(file, 100);
    await records.move(late);
    const flushed = records.put({ ...late, gaps: 1 }, "first");
    await records.storeLate();
    assert.notDeepEqual(stored(), late);
    await flushed;
    assert.deepEqual(stored(), { ...late, gaps: 1 });
  });

  test("still stores later what a flushed record that fails was to replace", async () => {
    await using bed = await setUp();
    const { records, fresh, stored } = bed;
    const late = at(opened(fresh), 100);
    await records.put(opened(fresh));
    await records.move(late);
    const canStore = refuseToStore(bed);
    await assert.rejects(records.put({ ...late, gaps: 1 }, "first"));
    canStore();
    await records.storeLate();
    assert.deepEqual(stored(), late);
  });

  const changes: readonly (readonly [string, (record: LogRecord) => LogRecord])[] = [
    ["another log file", (record) => ({ ...record, sink: { inode: "8", size: 0 } })],
    [
      "the next file of the engine",
      (record) => ({ ...record, position: { ...record.position, file: "second" } }),
    ],
    [
      "a line about lost lines",
      (record) => ({ ...record, position: { ...record.position, notice: "lost" } }),
    ],
    ["a log that goes on after its end", (record) => ({ ...record, finished: false })],
    ["a gap", (record) => ({ ...record, gaps: 1 })],
    ["another source", (record) => ({ ...record, source: "api" })],
  ];
  for (const [what, change] of changes) {
    test(`stores ${what} at once`, async () => {
      await using bed = await setUp();
      const before = { ...at(opened(bed.fresh), 100), finished: true };
      await bed.records.put(before);
      await bed.records.move(change(before));
      assert.deepEqual(bed.stored(), change(before));
    });
  }
});

test("a record without a format is of a log that this program writes", () => {
  const target = { directory: "/pod", path: "/pod/0.log" };
  const formatOf = (record: object): unknown => {
    const parsed = parseRecord(new TextEncoder().encode(JSON.stringify(record)), logRecordType);
    return parsed.kind === "record" ? parsed.record.format : parsed.kind;
  };
  for (const format of ["cri", "docker"] as const) {
    assert.equal(formatOf(newRecord(idOf("ab"), target, format)), format);
  }
  const { format, ...older } = newRecord(idOf("ab"), target);
  assert.equal(formatOf(older), format);
  assert.equal(formatOf({ ...older, format: "other" }), "corrupt");
});
