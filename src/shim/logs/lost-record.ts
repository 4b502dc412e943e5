/** The position of a log by its last line: when its record was lost, or is that of another source. */
import type { LogTarget } from "../ports/container-logs.js";
import { noticeCount } from "./gaps.js";
import { beginning, newRecord, type LogRecord, type SourcePosition } from "./log-record.js";
import { LogSink, type Written } from "./sink/log-sink.js";
import { secondIn } from "./api/replay.js";

const line = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S* (?:stdout|stderr) [FP] /;

/**
 * The record of a log that continues behind the last line of its file. Its source is the logs API, which
 * alone can be read from a time on. A file without lines, as after a rotation, gets all lines that the engine
 * has. Undefined when there is no file, or its last line is not in the CRI's format.
 */
export async function recordFromFile(containerId: string, target: LogTarget): Promise<LogRecord | undefined> {
  const sink = await LogSink.open(target, { create: false });
  if (sink === undefined) return undefined;
  try {
    const { last, end } = await sink.look(0);
    const record: LogRecord = {
      ...newRecord(containerId, target),
      source: "api",
      // An incomplete line behind it is removed when the log is opened.
      sink: { inode: sink.inode, size: end },
    };
    if (last === undefined) return (await beginsAsLog(sink)) ? record : undefined;
    const text = last.toString("latin1");
    if (!line.test(text)) return undefined;
    return { ...record, position: positionBehind(last), gaps: noticeCount(text) };
  } finally {
    await sink.close();
  }
}

/** Whether a file without a whole line is empty, or has an incomplete first line of a log. */
async function beginsAsLog(sink: LogSink): Promise<boolean> {
  const begin = "0000-00-00T";
  const head = await sink.head(begin.length);
  return begin.startsWith(head.toString("latin1").replaceAll(/\d/g, "0"));
}

/**
 * The position in the logs API of a log that was written from Docker's file, which cannot be read any more.
 * `written` is of the opening of the log file, with the last line of the rotated file when it is empty.
 */
export function positionInApi(former: SourcePosition, { lines, last }: Written): SourcePosition {
  // A recorded notice is the first line after the position.
  const notice = lines > 0 ? "" : former.notice;
  return { ...(last === undefined ? beginning : positionBehind(last)), notice };
}

/** The writer searches for the last line. */
function positionBehind(last: Buffer): SourcePosition {
  return { ...beginning, since: secondIn(last), lines: 1 };
}
