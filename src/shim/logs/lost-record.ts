/** Where a log goes on of which nothing but its last line is known: its record was lost, or is that of another source. */
import type { LogTarget } from "../ports/container-logs.js";
import { noticeCount } from "./gap-notice.js";
import { beginning, newRecord, type LogRecord, type SourcePosition } from "./log-record.js";
import { LogSink, type Written } from "./sink/log-sink.js";
import { secondOf } from "./api/replay.js";

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
    const { last, end } = await sink.look(0);
    const record: LogRecord = {
      ...newRecord(containerId, target),
      source: "api",
      // What is behind it is half of a line, and is taken back when the log is opened.
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

/** Whether a file without a whole line can be what a killed writer left of the first one, or empty. */
async function beginsAsLog(sink: LogSink): Promise<boolean> {
  const begin = "0000-00-00T";
  const head = await sink.head(begin.length);
  return begin.startsWith(head.toString("latin1").replaceAll(/\d/g, "0"));
}

/**
 * Where the logs API goes on with a log that was written from Docker's file so far, which is out of reach now: its
 * position means nothing there. `written` is as the opening of the log file has answered, with the last line of the file
 * before that when it is empty.
 */
export function positionInApi(former: SourcePosition, { lines, last }: Written): SourcePosition {
  // A notice that is recorded is the first line after the position.
  const notice = lines > 0 ? "" : former.notice;
  return { ...(last === undefined ? beginning : positionBehind(last)), notice };
}

/** How many lines the engine has of that second is not known. The writer compares the last one, and looks for it. */
function positionBehind(last: Buffer): SourcePosition {
  return { ...beginning, since: secondOf(last.toString("latin1", 0, 19)), lines: 1 };
}
