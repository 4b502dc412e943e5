/** The line that stands for lost ones, with the time of the line after it. */
export function gapNotice(time: string, count: number): string {
  return `${time} stderr F dockershim: log lines are missing here, the Docker Engine had dropped them before they were read (gap ${String(count)} of this log)\n`;
}

/** The time in a line of a log, when it is the gap notice with that count. */
export function noticeTime(line: Buffer | undefined, count: number): string | undefined {
  if (line === undefined || line.length > longestNoticeBytes) return undefined;
  const text = line.toString("latin1");
  const time = text.slice(0, Math.max(0, text.indexOf(" ")));
  return text === gapNotice(time, count) ? time : undefined;
}

/** How many gaps a log has, when this line of it is a gap notice; else 0. */
export function noticeCount(line: string): number {
  const count = Number(/\(gap (\d{1,9}) of this log\)\n$/.exec(line)?.[1] ?? 0);
  return line === gapNotice(line.slice(0, Math.max(0, line.indexOf(" "))), count) ? count : 0;
}

const longestNoticeBytes = 1024;

/** As `gapNotice`, for output that the engine does not keep. */
export function absenceNotice(time: string, count: number): string {
  return `${time} stderr F dockershim: output is missing here, it was written while dockershim did not run and the log driver keeps none (gap ${String(count)} of this log)\n`;
}

/** For a log that was a link to the engine's file, where that was too long to be written anew. */
export function cutNotice(time: string): string {
  return `${time} stderr F dockershim: older lines are left in the Docker Engine's file\n`;
}

/** For the same, where the engine dropped files meanwhile. What has no gaps of its own counts none. */
export function droppedNotice(time: string): string {
  return `${time} stderr F dockershim: log lines are missing here, the Docker Engine had dropped them before they were read\n`;
}
