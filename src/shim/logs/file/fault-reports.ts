/** Log lines about faults of one container's log: each fault once, not at each attempt. */
import type { Logger } from "../../../lib/log.js";
import type { LogRecord } from "../log-record.js";

export class FaultReports {
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
    this.#warn({}, "another program changed the log file of a container");
  }

  unreadable(err: string): void {
    if (this.#isUnreadable) return;
    this.#isUnreadable = true;
    this.#warn({ err }, "cannot read container log, trying again");
  }

  readable(): void {
    this.#isUnreadable = false;
  }

  notClosed(err: string): void {
    this.#warn({ err }, "cannot close container log");
  }

  #warn(fields: Readonly<Record<string, string | number>>, message: string): void {
    const { containerId, path } = this.record();
    this.log.warn({ containerId, path, ...fields }, message);
  }
}
