/** A new record for a log whose own was lost, made from the log file. */
import type { LogTarget } from "../ports/container-logs.js";
import { noticeCount } from "./gap-notice.js";
import { newRecord, type LogRecord } from "./log-record.js";
import { LogSink } from "./log-sink.js";
import { secondOf } from "./replay.js";

const line = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S* (?:stdout|stderr) [FP] /;

/**
 * The record of a log that goes on behind the last line of its file, read from the logs API: that alone can be read from
 * a time on. A file without lines, which is one that was rotated just now, gets all that the engine still has. Undefined
 * when there is no file, or its last line is none of the CRI's format.
 */
export async function recordFromFile(containerId: string, target: LogTarget): Promise<LogRecord | undefined> {
  const sink = await LogSink.open(target, { create: false });
  if (sink === undefined) return undefined;
  try {
    const { inode } = sink;
    const { last } = await sink.settle(0);
    const record: LogRecord = {
      ...newRecord(containerId, target),
      source: "api",
      sink: { inode, size: sink.size },
    };
    if (last === undefined) return record;
    const text = last.toString("latin1");
    if (!line.test(text)) return undefined;
    // How many lines the engine has of that second is not known. The writer compares the last one, and looks for it.
    const position = { ...record.position, since: secondOf(text.slice(0, 19)), lines: 1 };
    return { ...record, position, gaps: noticeCount(text) };
  } finally {
    await sink.close();
  }
}
