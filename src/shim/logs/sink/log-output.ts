/** The log file of one container and the record of its position, kept consistent. */
import { sleep } from "../../../lib/abort.js";
import { messageOf, ShimError } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import { Lock } from "../../../lib/sync/semaphore.js";
import type { LogTarget } from "../../ports/container-logs.js";
import type { LogSource } from "../log-source.js";
import { LogSink, type Appended, type Written } from "./log-sink.js";
import {
  beginning,
  type LogHistory,
  type LogRecord,
  type LogRecords,
  type SinkPosition,
  type SourcePosition,
} from "../log-record.js";

interface OpenOptions {
  readonly create: boolean;
  /** Of the output, for the record of a new file. */
  readonly source?: LogSource;
}

const retryMs = 1_000;
/** Writers record their position after so many bytes, and at this interval. */
const recordBytes = 16 * 1024 * 1024;
const recordMs = 60_000;

export class LogOutput {
  /** The writer holds it during all calls but `appendWithRetries`, which takes it, and `endHistory`. */
  readonly lock = new Lock();
  #sink: LogSink | undefined;
  #record: LogRecord;
  #hasReported = false;
  /** Appended since the position was recorded. */
  #unrecordedBytes = 0;
  /** When `saveWhenDue` has recorded; undefined: its next call does. */
  #savedMs: number | undefined;
  readonly #writes = new Lock();

  constructor(
    record: LogRecord,
    private readonly records: LogRecords,
    private readonly log: Pick<Logger, "warn" | "info">,
  ) {
    this.#record = record;
  }

  get record(): LogRecord {
    return this.#record;
  }

  get isOpen(): boolean {
    return this.#sink !== undefined;
  }

  get target(): LogTarget {
    const { directory, path } = this.#record;
    return { directory, path };
  }

  /**
   * Opens the file of the record. When that file is gone a new one is made, unless `create` is false: then
   * `undefined`. The recorded position is that of the first `size` bytes; returns the lines behind them. Nothing
   * is open when it throws.
   */
  async open(options: OpenOptions): Promise<Written | undefined> {
    try {
      return await this.#open(options);
    } catch (error) {
      await this.close().catch(() => undefined);
      throw error;
    }
  }

  async #open({ create, source }: OpenOptions): Promise<Written | undefined> {
    const { sink } = this.#record;
    if (sink.inode !== "") {
      this.#sink = await LogSink.find(this.target, sink.inode);
      if (this.#sink !== undefined) return this.#sink.settle(sink.size);
    }
    const { former, history } = this.#record;
    const mayHaveReturned = former !== null || history !== null;
    const present = mayHaveReturned ? await LogSink.open(this.target, { create: false }) : undefined;
    if (present !== undefined && former !== null && present.inode === former.inode) {
      // The rename before the last reopening was undone. The new file is gone, with its lines.
      this.#sink = present;
      this.#record = {
        ...this.#record,
        position: former.position,
        sink: { inode: former.inode, size: former.size },
        former: null,
      };
      return present.settle(former.size);
    }
    if (present !== undefined && former === null && history !== null && sink.inode !== "") {
      await this.#takeHistory(present, history);
      return present.settle(present.size);
    }
    this.#sink = present ?? (await LogSink.open(this.target, { create }));
    if (this.#sink === undefined) return undefined;
    await this.save(this.#record.position, source === undefined ? {} : { source, finished: false });
    return { lines: 0, last: undefined };
  }

  /**
   * As after `endHistory` when the process was killed before: only a complete history gets a name that a
   * kubelet can rename. Recorded at once: its size is known only now.
   */
  async #takeHistory(present: LogSink, { file, offset }: LogHistory): Promise<void> {
    this.#sink = present;
    this.#record = { ...this.#record, history: null };
    await this.save({ ...beginning, file, offset });
  }

  /** Under any name; undefined when that file is gone. */
  async lastBeforeReopening(): Promise<Buffer | undefined> {
    const { former } = this.#record;
    if (former === null) return undefined;
    const sink = await LogSink.find(this.target, former.inode);
    if (sink === undefined) return undefined;
    try {
      return (await sink.look(former.size)).last;
    } finally {
      await sink.close();
    }
  }

  /** Appends whole lines; a full disk is reported once, until something could be written again. */
  async append(data: Buffer): Promise<Appended> {
    if (this.#sink === undefined) throw new ShimError("internal", "the log file is not open");
    const appended = await this.#sink.append(data);
    this.#unrecordedBytes += appended.bytes;
    const { containerId, path } = this.#record;
    if (appended.error !== undefined && !this.#hasReported) {
      this.#hasReported = true;
      this.log.warn(
        { containerId, path, err: appended.error.message },
        "cannot write container log, waiting for the disk",
      );
    } else if (appended.error === undefined && this.#hasReported) {
      this.#hasReported = false;
      this.log.info({ containerId, path }, "container log is written again");
    }
    return appended;
  }

  /** Appends all of `lines` under the lock, with retries on a full disk. Throws the reason of `signal`. */
  async appendWithRetries(
    lines: Buffer,
    signal: AbortSignal,
    onAppended?: (part: Buffer) => Promise<void>,
  ): Promise<void> {
    let rest = lines;
    while (rest.length > 0) {
      const done = await this.lock.run(async () => {
        signal.throwIfAborted();
        const { bytes } = await this.append(rest);
        if (bytes > 0) await onAppended?.(rest.subarray(0, bytes));
        return bytes;
      });
      rest = rest.subarray(done);
      if (rest.length > 0) await sleep(retryMs, signal);
    }
  }

  get hasUnrecorded(): boolean {
    return this.#unrecordedBytes > 0;
  }

  /** As `save`, at most once a minute unless much was written. */
  async saveWhenDue(position: SourcePosition): Promise<void> {
    const now = performance.now();
    const isDue = this.#savedMs === undefined || now - this.#savedMs > recordMs;
    if (!isDue && this.#unrecordedBytes < recordBytes) return;
    this.#savedMs = now;
    await this.save(position);
  }

  /** `saveWhenDue` records when it is called next. */
  saveSoon(): void {
    this.#savedMs = undefined;
  }

  /** Records `position` as that of the file's present end. */
  async save(
    position: SourcePosition,
    changes: Partial<Pick<LogRecord, "source" | "finished" | "gaps">> = {},
  ): Promise<void> {
    const sink = this.#sink;
    this.#unrecordedBytes = 0;
    this.#record = {
      ...this.#record,
      ...changes,
      position,
      ...(sink === undefined ? {} : { sink: { inode: sink.inode, size: sink.size } }),
    };
    await this.#store();
  }

  /** A history is complete, in `file`. A kubelet without the answer to the rotation renames it back, too. */
  async endHistory(file: SinkPosition | undefined): Promise<void> {
    const { history, former } = this.#record;
    const position = { ...beginning, file: history?.file ?? "", offset: history?.offset ?? 0 };
    const before = file === undefined ? null : { ...file, position };
    this.#record = { ...this.#record, history: null, former: former ?? before };
    await this.#store();
  }

  async #store(): Promise<void> {
    try {
      await this.#writes.run(() => this.records.move(this.#record));
    } catch (error) {
      // The log continues. After a kill the older position is compared with the file, which takes longer.
      const { containerId } = this.#record;
      this.log.warn({ containerId, err: messageOf(error) }, "cannot record the position of a container log");
    }
  }

  /** Continues in a new file at the log path. When it throws, nothing has changed. */
  async reopen(position: SourcePosition): Promise<void> {
    await this.save(position);
    const opened = await LogSink.open(this.target, { create: true });
    if (opened === undefined) return;
    const former = this.#sink;
    if (former?.inode === opened.inode) {
      await opened.close();
      return;
    }
    this.#sink = opened;
    if (former !== undefined) {
      const { inode, size } = former;
      this.#record = { ...this.#record, former: { inode, size, position } };
      await former.close();
    }
    await this.save(position);
  }

  async close(): Promise<void> {
    const sink = this.#sink;
    this.#sink = undefined;
    await sink?.close();
  }
}

/** Retries `write` until it returns true: the disk has taken it. Throws the reason of `signal`. */
export async function retryWrite(write: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await write())) await sleep(retryMs, signal);
}
