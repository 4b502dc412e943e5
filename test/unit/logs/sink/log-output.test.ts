import assert from "node:assert/strict";
import { test } from "node:test";
import { LogOutput } from "../../../../src/shim/logs/sink/log-output.js";
import { LogSink } from "../../../../src/shim/logs/sink/log-sink.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { LogFiles } from "../log-bench.js";

test("a log file whose end cannot be read is closed again", async (context) => {
  await using files = new LogFiles(await temporaryDirectory());
  await files.putRecord();
  await files.openOutput();
  await files.output.close();
  const closed = context.mock.method(LogSink.prototype, "close");
  context.mock.method(LogSink.prototype, "settle", () => Promise.reject(new Error("EIO")));
  const output = new LogOutput(files.output.record, files.records, files.log);
  await assert.rejects(output.open({ create: true }), /EIO/);
  assert.equal(closed.mock.callCount(), 1);
  assert.equal(output.isOpen, false);
});
