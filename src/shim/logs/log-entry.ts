/** What is held of the log of one container while this program runs. */
import type { Snapshot } from "../domain/snapshot.js";
import type { HistoryWriter } from "./adopted/history-writer.js";
import { RetryTimer, type BackoffTimes } from "../lib/sync/backoff.js";
import { Lock } from "./sink/log-output.js";
import type { LogRecord } from "./log-record.js";
import type { LogWriter } from "./log-writer.js";

export class LogEntry {
  readonly lock = new Lock();
  readonly later: RetryTimer;
  writer: LogWriter | undefined;
  history: HistoryWriter | undefined;
  /** As it was seen last. */
  container: Snapshot | undefined;
  isRemoved = false;

  constructor(times: BackoffTimes) {
    this.later = new RetryTimer(times);
  }

  /** In its lock. Both stop at once. */
  async close(): Promise<void> {
    await this.history?.stop();
    this.history = undefined;
    await this.writer?.close();
  }
}

export function runs(container: Snapshot | undefined): container is Snapshot {
  const status = container?.state.status;
  return status === "running" || status === "paused" || status === "restarting";
}

/** Whether something was written to a file already. */
export function isKnownSink(record: LogRecord | undefined): boolean {
  return record !== undefined && record.sink.inode !== "";
}
