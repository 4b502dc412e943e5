/** Gaps in a log: one line stands for the lost ones. It is written once, also when the process is killed. */
import type { Logger } from "../../lib/log.js";
import type { SourcePosition } from "./log-record.js";
import type { LogOutput } from "./sink/log-output.js";

/** The line for lost ones, with the time of the line after it. Its text must stay as in existing logs. */
export function gapNotice(time: string, count: number): string {
  return `${time} stderr F dockershim: log lines are missing here, the Docker Engine had dropped them before they were read (gap ${String(count)} of this log)\n`;
}

const longestNoticeBytes = 1024;

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

/** As `gapNotice`, for output that the engine does not keep. */
export function absenceNotice(time: string, count: number): string {
  return `${time} stderr F dockershim: output is missing here, it was written while dockershim did not run and the log driver keeps none (gap ${String(count)} of this log)\n`;
}

/** For the history of a converted log, where the engine's file was too long to be written again. */
export function cutNotice(time: string): string {
  return `${time} stderr F dockershim: older lines are left in the Docker Engine's file\n`;
}

/** For the same, where the engine dropped files meanwhile. A history does not count its gaps. */
export function droppedNotice(time: string): string {
  return `${time} stderr F dockershim: log lines are missing here, the Docker Engine had dropped them before they were read\n`;
}

export class GapMarker {
  #isDue = false;
  #notice: string;

  /** `notice`: recorded and not written by the previous process, or empty. `position`: with `this.notice`. */
  constructor(
    notice: string,
    private readonly output: LogOutput,
    private readonly position: () => SourcePosition,
    private readonly log: Pick<Logger, "warn">,
  ) {
    this.#notice = notice;
  }

  /** Recorded and not written yet, or empty. Part of each position that is recorded. */
  get notice(): string {
    return this.#notice;
  }

  /** Whether lines are missing before the next one, and that has not been announced. */
  get isDue(): boolean {
    return this.#isDue;
  }

  /** Lines are missing before the next one. */
  noteGap(): void {
    this.#isDue = true;
  }

  /** Records the notice to be written before `next`, the first line after the gap. */
  async announceBefore(next: Buffer): Promise<void> {
    this.#isDue = false;
    const { containerId, gaps, path } = this.output.record;
    this.#notice = gapNotice(next.subarray(0, next.indexOf(0x20)).toString("latin1"), gaps + 1);
    await this.output.save(this.position(), { gaps: gaps + 1 });
    this.log.warn(
      { containerId, path, gaps: gaps + 1 },
      "the engine has dropped log lines before they were read",
    );
  }

  /** Appends the recorded notice. False: the disk does not take it. */
  async write(): Promise<boolean> {
    if (this.#notice === "") return true;
    const { error } = await this.output.append(Buffer.from(this.#notice));
    if (error !== undefined) return false;
    this.#notice = "";
    await this.output.save(this.position());
    return true;
  }
}
