import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { LogOutput } from "../../../../src/shim/logs/sink/log-output.js";
import { LogRecords, newRecord } from "../../../../src/shim/logs/log-record.js";
import { LogSink } from "../../../../src/shim/logs/sink/log-sink.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { idOf } from "../../../fakes/snapshots.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

test("a log file whose end cannot be read is closed again", async (context) => {
  await using root = await temporaryDirectory();
  const directory = join(root.path, "pod");
  mkdirSync(directory);
  const log = recordingLog();
  const records = await LogRecords.open(join(root.path, "logs"), log, join(root.path, "quarantine"));
  const record = newRecord(idOf("ab"), { directory, path: join(directory, "0.log") });
  await records.put(record);
  const first = new LogOutput(record, records, log);
  await first.open({ create: true });
  await first.close();
  const closed = context.mock.method(LogSink.prototype, "close");
  context.mock.method(LogSink.prototype, "settle", () => Promise.reject(new Error("EIO")));
  const second = new LogOutput(first.record, records, log);
  await assert.rejects(second.open({ create: true }), /EIO/);
  assert.equal(closed.mock.callCount(), 1);
  assert.equal(second.isOpen, false);
});
