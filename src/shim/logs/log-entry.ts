/** The state of one container's log in this process. */
import { sleep } from "../../lib/abort.js";
import { RetryTimer, type BackoffTimes } from "../../lib/sync/backoff.js";
import { Lock } from "../../lib/sync/semaphore.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { HistoryWriter } from "./adopted/history-writer.js";
import type { LogWriter } from "./log-source.js";
import type { PreparedFileLog } from "./writer-factory.js";

export class LogEntry {
  readonly lock = new Lock();
  readonly retry: RetryTimer;
  writer: LogWriter | undefined;
  /** Opened before the start of the container, which has made Docker's file when it is continued. */
  prepared: PreparedFileLog | undefined;
  history: HistoryWriter | undefined;
  /** As observed last. */
  container: Snapshot | undefined;
  isRemoved = false;

  constructor(times: BackoffTimes) {
    this.retry = new RetryTimer(times);
  }

  /** To be called under the lock. Stops both writers at once. */
  async close(): Promise<void> {
    await this.history?.stop();
    this.history = undefined;
    await this.prepared?.output.close();
    this.prepared = undefined;
    await this.writer?.close();
  }
}

/** Whether `work` ended in time. Its error is thrown. After the time limit the work continues. */
export async function endsWithin(milliseconds: number, work: Promise<unknown>): Promise<boolean> {
  const done = new AbortController();
  const timedOut = sleep(milliseconds, done.signal).then(
    () => false,
    () => false,
  );
  try {
    return await Promise.race([work.then(() => true), timedOut]);
  } finally {
    done.abort();
  }
}
