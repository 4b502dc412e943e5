/** Marks where the engine has dropped lines: one line in the log, written once, also when the process is killed. */
import type { Logger } from "../lib/log.js";
import { gapNotice } from "./gap-notice.js";
import type { LogOutput } from "./sink/log-output.js";
import type { SourcePosition } from "./log-record.js";

export class GapMarker {
  #isDue = false;
  #notice: string;

  /** `notice`: recorded by a predecessor and not written yet, or empty. `position`: the present one, with our `notice`. */
  constructor(
    notice: string,
    private readonly output: LogOutput,
    private readonly position: () => SourcePosition,
    private readonly log: Pick<Logger, "warn">,
  ) {
    this.#notice = notice;
  }

  /** Recorded and not written yet; empty when there is none. Part of each position that is recorded. */
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

  /** Before the first line after a gap comes one that says so; `next` begins with that first line. */
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

  /** Appends what was announced. False: the disk does not take it. */
  async write(): Promise<boolean> {
    if (this.#notice === "") return true;
    const { error } = await this.output.append(Buffer.from(this.#notice));
    if (error !== undefined) return false;
    this.#notice = "";
    await this.output.save(this.position());
    return true;
  }
}
