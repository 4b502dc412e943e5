/**
 * What the log of the process says about the source of one container's log: each fault once, not at each
 * attempt.
 */
import type { Logger } from "../../lib/log.js";
import type { LogRecord } from "../log-record.js";

export class FileReports {
  #hasReportedEntries = false;
  #hasReportedArchive = false;
  #isUnreadable = false;

  constructor(
    private readonly record: () => Pick<LogRecord, "containerId" | "path">,
    private readonly log: Pick<Logger, "warn">,
  ) {}

  damagedEntries(entries: number): void {
    if (this.#hasReportedEntries) return;
    this.#hasReportedEntries = true;
    this.#warn({ entries }, "the engine's log file has entries that cannot be read, left out");
  }

  damagedArchive(err: string): void {
    if (this.#hasReportedArchive) return;
    this.#hasReportedArchive = true;
    this.#warn(
      { err },
      "a compressed archive of the engine's log is damaged: its rest is missing in the container's log",
    );
  }

  changedFile(): void {
    this.#warn({}, "a container's log file was changed by somebody else");
  }

  unreadable(err: string): void {
    if (this.#isUnreadable) return;
    this.#isUnreadable = true;
    this.#warn({ err }, "cannot read a container's log, trying again");
  }

  readable(): void {
    this.#isUnreadable = false;
  }

  notClosed(err: string): void {
    this.#warn({ err }, "cannot close a container's log");
  }

  #warn(fields: Readonly<Record<string, string | number>>, message: string): void {
    const { containerId, path } = this.record();
    this.log.warn({ containerId, path, ...fields }, message);
  }
}
