/** All logs that this program writes: which containers have one, and when its writer starts and ends. */
import { messageOf, ShimError } from "../../lib/errors.js";
import type { BackoffTimes } from "../../lib/sync/backoff.js";
import { tries } from "../../domain/reach.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { ContainerLogs, LogOwner, LogTarget } from "../ports/container-logs.js";
import { convertedRecord, keptLink, type AdoptedLogs } from "./adopted/convert-link.js";
import { removeBeside } from "./adopted/engine-links.js";
import { historyTemporary } from "./adopted/history-writer.js";
import { LogEntry, endsWithin } from "./log-entry.js";
import { newRecord, type LogFormat, type LogRecord } from "./log-record.js";
import type { LogSource } from "./log-source.js";
import { recordFromFile } from "./lost-record.js";
import { TurnQueue } from "./turn-queue.js";
import { WriterFactory, type WriterFactoryDeps } from "./writer-factory.js";

export interface LogWritersDeps extends WriterFactoryDeps {
  /** Format of logs of containers that are created from now on. */
  readonly format: LogFormat;
  /** What happens to logs of containers of dockershim and cri-dockerd. */
  readonly adopted: AdoptedLogs;
}

/** An ended container is reported as ended after this time at the latest. */
const finishTimeoutMs = 5_000;
/** How long the writer of a removed container may take to read the rest. */
const removeTimeoutMs = 1_000;
/** After a log could not be opened or finished: too many open files, a full or read-only file system. */
const retryTimes: BackoffTimes = { first: 1_000, longest: 30_000 };

export class ContainerLogWriters implements ContainerLogs {
  readonly #entries = new Map<string, LogEntry>();
  readonly #factory: WriterFactory;
  #hasWarned = false;
  #hasWarnedOfReach = false;
  #isStopped = false;

  constructor(
    private readonly deps: LogWritersDeps,
    private readonly times: BackoffTimes = retryTimes,
  ) {
    const queue = new TurnQueue((error) => {
      deps.log.error({ err: messageOf(error) }, "cannot continue container log");
    });
    this.#factory = new WriterFactory(deps, queue);
  }

  async created(containerId: string, { directory, path }: LogTarget): Promise<boolean> {
    const { records } = this.deps;
    if (path === "") return false;
    const format = this.#formatNow();
    const record = newRecord(containerId, { directory, path }, format);
    // A log file is recorded again before the start.
    await (format === "cri" ? records.move(record) : records.put(record));
    return format === "cri";
  }

  /** A link to a file of another host would lead nowhere, and there would be no log. */
  #formatNow(): LogFormat {
    const { format, host, log } = this.deps;
    if (format === "cri" || tries(host().reach, "files")) return format;
    if (!this.#hasWarnedOfReach) {
      this.#hasWarnedOfReach = true;
      log.warn(
        {},
        "--container-log-format=docker: the engine's log files are out of reach, logs are written in the CRI's format",
      );
    }
    return "cri";
  }

  /** Once, of a container whose log this program leaves to the engine. */
  #warnOfDriver(container: Snapshot): void {
    const { log } = this.deps;
    if (this.ownerOf(container.id) === "engine" && container.logDriver !== "json-file" && !this.#hasWarned) {
      this.#hasWarned = true;
      log.warn(
        { containerId: container.id, driver: container.logDriver },
        "--container-log-format=docker: this log driver has no files to link, kubectl logs and crictl logs show nothing",
      );
    }
  }

  ownerOf(containerId: string): LogOwner | undefined {
    const record = this.deps.records.get(containerId);
    if (record === undefined) return undefined;
    return record.format === "cri" ? "shim" : "engine";
  }

  async adopt(container: Snapshot, target: LogTarget): Promise<boolean> {
    if (this.#isStopped || this.ownerOf(container.id) !== undefined) return false;
    const record = await recordFromFile(container.id, target);
    if (record === undefined) return false;
    await this.deps.records.put(record);
    await this.observe(container);
    return true;
  }

  owns(containerId: string): boolean {
    return this.ownerOf(containerId) === "shim";
  }

  ids(): readonly string[] {
    return this.deps.records.ids();
  }

  async beforeStart(container: Snapshot, signal: AbortSignal): Promise<void> {
    this.#warnOfDriver(container);
    if (!this.owns(container.id)) return;
    const entry = this.#entry(container.id);
    await entry.lock.run(async () => {
      if (entry.writer !== undefined || entry.isRemoved) return;
      // A start has failed: its file may have been renamed or removed since.
      await entry.prepared?.output.close();
      entry.prepared = undefined;
      const prepared = await this.#factory.prepare(container, signal);
      if (prepared?.source === "attach") {
        entry.writer = prepared.writer;
        entry.writer.start();
      } else {
        entry.prepared = prepared;
      }
    });
  }

  async observe(container: Snapshot): Promise<void> {
    const record = this.deps.records.get(container.id);
    if (record?.format !== "cri" || this.#isStopped) return;
    const entry = this.#entry(container.id);
    entry.container = container;
    entry.retry.cancel();
    const { status } = container.state;
    const hasEnded = status === "exited" || status === "dead";
    const { writer, prepared } = entry;
    const isOpen = writer !== undefined || prepared !== undefined;
    try {
      if (runs(container) && (writer === undefined || record.finished)) {
        await this.#inTime(entry, this.#begin(entry, container));
      } else if (hasEnded && (!record.finished || (record.history !== null && entry.history === undefined))) {
        await this.#end(entry, container);
      } else if (status === "created" && container.state.exitCode !== 0 && isOpen) {
        // The start failed: there is no output to wait for.
        await entry.lock.run(async () => {
          await entry.close();
          entry.writer = undefined;
        });
      }
    } catch (error) {
      this.#retryLater(entry, container, error);
    }
  }

  async convert(container: Snapshot, target: LogTarget): Promise<void> {
    const { id: containerId } = container;
    const { adopted, records, log } = this.deps;
    if (adopted === "keep") throw keptLink(containerId);
    // Then the link to the engine's file is removed.
    await records.put(await convertedRecord(container, target), "first");
    const entry = this.#entry(containerId);
    entry.container = container;
    await entry.lock.run(async () => {
      if (entry.isRemoved || this.#isStopped || entry.writer !== undefined) return;
      await this.#start(entry, container);
    });
    log.info({ containerId, path: target.path }, "converted the link to the engine's log into a log file");
  }

  async reopen(containerId: string): Promise<void> {
    const entry = this.#entry(containerId);
    const fields = { containerId };
    if (!this.owns(containerId)) {
      throw new ShimError(
        "precondition",
        `the log of container "${containerId}" is a link to the Docker Engine's file, which only the engine can rotate (log-opts max-size)`,
        fields,
      );
    }
    await entry.lock.run(async () => {
      const isOver = entry.isRemoved || this.deps.records.get(containerId)?.finished === true;
      if (!isOver && !this.#isStopped && entry.writer === undefined && runs(entry.container)) {
        // The log could not be opened before.
        await this.#start(entry, entry.container);
      }
      if (isOver || entry.writer === undefined) {
        throw new ShimError("precondition", `container "${containerId}" is not running`, fields);
      }
      await entry.writer.reopen();
      entry.history?.retry();
    });
  }

  async remove(containerId: string): Promise<void> {
    const entry = this.#entry(containerId);
    entry.isRemoved = true;
    entry.retry.cancel();
    try {
      await entry.lock.run(async () => {
        if (entry.writer !== undefined) await endsWithin(removeTimeoutMs, entry.writer.finish());
        await entry.close();
        const record = this.deps.records.get(containerId);
        if (record !== undefined && record.history !== null)
          await removeBeside(record, historyTemporary(record).path);
        await this.deps.records.remove(containerId);
      });
    } catch (error) {
      this.deps.log.warn(
        { containerId, err: messageOf(error) },
        "cannot remove the log record of a container",
      );
    } finally {
      this.#entries.delete(containerId);
    }
  }

  /** For metrics: active writers by source, and the number of gaps in all logs. */
  get counts(): { readonly writing: Readonly<Record<LogSource, number>>; readonly gaps: number } {
    const { records } = this.deps;
    const writing = { file: 0, api: 0, attach: 0 };
    let gaps = 0;
    for (const id of records.ids()) {
      const record = records.get(id);
      if (record === undefined) continue;
      gaps += record.gaps;
      const isWriting = this.#entries.get(id)?.writer !== undefined && !record.finished;
      if (isWriting && record.source !== undefined) writing[record.source] += 1;
    }
    return { writing, gaps };
  }

  /** Stops all writers; the next process continues at their positions. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const { retry } of this.#entries.values()) retry.cancel();
    await Promise.allSettled([...this.#entries.values()].map((entry) => entry.lock.run(() => entry.close())));
    await this.deps.records.storeLate();
  }

  async #begin(entry: LogEntry, container: Snapshot): Promise<void> {
    await entry.lock.run(async () => {
      if (entry.isRemoved || this.#isStopped) return;
      const isOver = this.deps.records.get(container.id)?.finished === true;
      if (entry.writer !== undefined && !isOver) return;
      if (isOver) {
        await entry.close();
        entry.writer = undefined;
      }
      await this.#start(entry, container);
    });
  }

  /** To be called under the lock of the entry. */
  async #start(entry: LogEntry, container: Snapshot): Promise<void> {
    await this.#open(entry, container, { create: true });
    entry.writer?.start();
    entry.retry.succeeded();
  }

  async #open(entry: LogEntry, container: Snapshot, options: { readonly create: boolean }): Promise<void> {
    const { prepared } = entry;
    entry.prepared = undefined;
    if (prepared !== undefined) {
      entry.writer = await this.#factory.resume(container, prepared);
      return;
    }
    const opened = await this.#factory.open(container, options);
    entry.writer = opened?.writer;
    if (opened === undefined) return;
    entry.history = opened.history;
    entry.history?.start();
  }

  /** Whether `work` ended in time. Its error is thrown; an error that comes later leads to a retry, too. */
  async #inTime(entry: LogEntry, work: Promise<unknown>): Promise<boolean> {
    const { container } = entry;
    const isInTime = await endsWithin(finishTimeoutMs, work);
    if (!isInTime && container !== undefined) {
      work.catch((error: unknown) => {
        this.#retryLater(entry, container, error);
      });
    }
    return isInTime;
  }

  /** Without this a log would wait for the next event of its container, which may never come. */
  #retryLater(entry: LogEntry, container: Snapshot, error: unknown): void {
    const { id: containerId } = container;
    if (entry.isRemoved || this.#isStopped || entry.container !== container) return;
    entry.retry.failed(() => void this.observe(container));
    if (entry.retry.failures > 1) return;
    this.deps.log.error(
      { containerId, path: this.deps.records.get(containerId)?.path, err: messageOf(error) },
      "cannot write the log of a container, trying again",
    );
  }

  /** When all output is written, or after the time limit; then it goes on in the background. */
  async #end(entry: LogEntry, container: Snapshot): Promise<void> {
    const ended = entry.lock.run(async () => {
      if (entry.isRemoved || this.#isStopped) return;
      // The container ended while this program did not run: its pod may be about to be removed.
      if (entry.writer === undefined) {
        const create = !wasWritten(this.deps.records.get(container.id));
        await this.#open(entry, container, { create });
      }
      return { finished: entry.writer?.finish() ?? Promise.resolve() };
    });
    const finished = ended.then((end) => end?.finished);
    if (await this.#inTime(entry, finished)) {
      entry.retry.succeeded();
      return;
    }
    this.deps.log.warn({ containerId: container.id }, "container has ended, its log is not complete yet");
  }

  #entry(containerId: string): LogEntry {
    const known = this.#entries.get(containerId);
    if (known !== undefined) return known;
    const entry = new LogEntry(this.times);
    if (this.owns(containerId)) this.#entries.set(containerId, entry);
    return entry;
  }
}

function runs(container: Snapshot | undefined): container is Snapshot {
  const status = container?.state.status;
  return status === "running" || status === "paused" || status === "restarting";
}

function wasWritten(record: LogRecord | undefined): boolean {
  return record !== undefined && record.sink.inode !== "";
}
