import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parseRecord } from "../../../src/lib/files/record-directory.js";
import { logRecordType, LogRecords, newRecord } from "../../../src/shim/logs/log-record.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { idOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

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
  const id = idOf("ab");
  mkdirSync(join(logs, `${id}.json`));
  const record = newRecord(id, { directory: root.path, path: join(root.path, "0.log") });
  await assert.rejects(records.move(record), { message: new RegExp(`write.*${id}`) });
  assert.deepEqual(readdirSync(logs), [`${id}.json`]);
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
