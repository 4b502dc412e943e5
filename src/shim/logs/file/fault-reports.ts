/** Log lines about faults of one container's log: each fault once, not at each attempt. */
import type { Logger } from "../../../lib/log.js";
import type { LogRecord } from "../log-record.js";

const messages = {
  damagedEntries: "the engine's log file has entries that cannot be read, left out",
  damagedArchive:
    "a compressed archive of the engine's log is damaged: its rest is missing in the container's log",
  changedFile: "another program changed the log file of a container",
  unreadable: "cannot read container log, trying again",
  notClosed: "cannot close container log",
} as const;

type Fault = keyof typeof messages;

export class FaultReports {
  readonly #reported = new Set<Fault>();

  constructor(
    private readonly record: () => Pick<LogRecord, "containerId" | "path">,
    private readonly log: Pick<Logger, "warn">,
  ) {}

  report(fault: Fault, fields: { readonly err?: string; readonly entries?: number } = {}): void {
    // Several files of a log may fail to close.
    if (this.#reported.has(fault) && fault !== "notClosed" && fault !== "changedFile") return;
    this.#reported.add(fault);
    const { containerId, path } = this.record();
    this.log.warn({ containerId, path, ...fields }, messages[fault]);
  }

  /** The fault is over, and is reported again when it comes back. */
  over(fault: Fault): void {
    this.#reported.delete(fault);
  }
}
