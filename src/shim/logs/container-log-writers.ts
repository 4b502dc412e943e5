/** All logs that this program writes: which containers have one, what it is written from, and when that begins and ends. */
import { messageOf, ShimError } from "../lib/errors.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { ContainerLogs, LogKeeper, LogTarget } from "../ports/container-logs.js";
import { convertedRecord, keptLink, type AdoptedLogs } from "./adopted/convert-link.js";
import { removeBeside, removeEngineLinks } from "./adopted/engine-links.js";
import { historyTemporary } from "./adopted/history-writer.js";
import type { BackoffTimes } from "../lib/sync/backoff.js";
import { isKnownSink, LogEntry, runs } from "./log-entry.js";
import { LogOutput } from "./sink/log-output.js";
import { newRecord, type LogFormat, type LogRecords } from "./log-record.js";
import type { Written } from "./sink/log-sink.js";
import type { LogSource } from "./log-source.js";
import type { LogWriter } from "./log-writer.js";
import { positionInApi, recordFromFile } from "./lost-record.js";
import { SourceWriters, type SourceWritersDeps } from "./writer-factory.js";
import { TurnQueue } from "./turn-queue.js";
import { within } from "./within.js";

export interface LogWritersDeps extends SourceWritersDeps {
  readonly records: LogRecords;
  /** Of containers that are created from now on. */
  readonly format: LogFormat;
  /** Of containers of dockershim and cri-dockerd. */
  readonly adopted: AdoptedLogs;
}

/** A container that ended is shown as ended after that time at the latest. */
const finishTimeoutMs = 5_000;
/** A container that was removed has nothing more to say, but perhaps something that was not read yet. */
const removeTimeoutMs = 1_000;
/** A log that could not be begun or ended: too many open files, a file system that is full or read-only. */
const laterTimes: BackoffTimes = { first: 1_000, longest: 30_000 };

export class ContainerLogWriters implements ContainerLogs {
  readonly #entries = new Map<string, LogEntry>();
  readonly #queue = new TurnQueue((error) => {
    this.deps.log.error({ err: messageOf(error) }, "a log cannot be written on");
  });
  readonly #sources: SourceWriters;
  #hasWarned = false;
  #isStopped = false;

  constructor(
    private readonly deps: LogWritersDeps,
    private readonly times: BackoffTimes = laterTimes,
  ) {
    this.#sources = new SourceWriters(deps, this.#queue);
  }

  async created(container: Snapshot, { directory, path }: LogTarget): Promise<boolean> {
    const { format, records, log } = this.deps;
    if (path === "") return false;
    await records.put(newRecord(container.id, { directory, path }, format));
    if (format === "cri") return true;
    if (container.logDriver !== "json-file" && !this.#hasWarned) {
      this.#hasWarned = true;
      log.warn(
        { containerId: container.id, driver: container.logDriver },
        "--container-log-format=docker: this log driver has no files to link, kubectl logs and crictl logs show nothing",
      );
    }
    return false;
  }

  keeperOf(containerId: string): LogKeeper | undefined {
    const record = this.deps.records.get(containerId);
    if (record === undefined) return undefined;
    return record.format === "cri" ? "shim" : "engine";
  }

  async adopt(container: Snapshot, target: LogTarget): Promise<boolean> {
    if (this.#isStopped || this.keeperOf(container.id) !== undefined) return false;
    const record = await recordFromFile(container.id, target);
    if (record === undefined) return false;
    await this.deps.records.put(record);
    await this.observe(container);
    return true;
  }

  owns(containerId: string): boolean {
    return this.keeperOf(containerId) === "shim";
  }

  ids(): readonly string[] {
    return this.deps.records.ids();
  }

  async beforeStart(container: Snapshot, signal: AbortSignal): Promise<void> {
    if (!this.owns(container.id)) return;
    const entry = this.#entry(container.id);
    await entry.lock.run(async () => {
      if (entry.writer !== undefined || entry.isRemoved) return;
      const source = await this.#sourceOf(container);
      const output = this.#output(container.id);
      if (output === undefined) return;
      await output.open({ create: true });
      if (source !== "attach") {
        await output.close();
        return;
      }
      const writer = this.#sources.openAttached(container, output);
      try {
        await writer.attach(signal);
      } catch (error) {
        await writer.close();
        throw error;
      }
      await output.save(output.record.position, { source, finished: false });
      entry.writer = writer;
      writer.start();
    });
  }

  async observe(container: Snapshot): Promise<void> {
    const record = this.deps.records.get(container.id);
    if (record?.format !== "cri" || this.#isStopped) return;
    const entry = this.#entry(container.id);
    entry.container = container;
    entry.later.cancel();
    const { status } = container.state;
    const hasEnded = status === "exited" || status === "dead";
    const { writer } = entry;
    try {
      if (runs(container) && (writer === undefined || record.finished)) {
        await this.#inTime(entry, this.#begin(container));
      } else if (hasEnded && (!record.finished || (record.history !== null && entry.history === undefined))) {
        await this.#end(container);
      } else if (status === "created" && container.state.exitCode !== 0 && writer !== undefined) {
        // It could not be started, and there is nothing to wait for.
        await this.#abandon(container.id);
      }
    } catch (error) {
      this.#tryLater(entry, container, error);
    }
  }

  async convert(container: Snapshot, target: LogTarget): Promise<void> {
    const { id: containerId } = container;
    const { adopted, records, log } = this.deps;
    if (adopted === "keep") throw keptLink(containerId);
    await records.put(await convertedRecord(container, target));
    const entry = this.#entry(containerId);
    entry.container = container;
    await entry.lock.run(async () => {
      if (entry.isRemoved || this.#isStopped || entry.writer !== undefined) return;
      await this.#start(entry, container);
    });
    log.info(
      { containerId, path: target.path },
      "the link to the engine's log of a container has become a file",
    );
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
        // It could not be begun before.
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
    entry.later.cancel();
    try {
      await entry.lock.run(async () => {
        const { writer } = entry;
        if (writer !== undefined) {
          await within(removeTimeoutMs, writer.finish());
        }
        await entry.close();
        const record = this.deps.records.get(containerId);
        if (record !== undefined && record.history !== null)
          await removeBeside(record, historyTemporary(record).path);
        await this.deps.records.remove(containerId);
      });
    } catch (error) {
      this.deps.log.warn({ containerId, err: messageOf(error) }, "cannot forget the log of a container");
    } finally {
      this.#entries.delete(containerId);
    }
  }

  /** For metrics: writers at work, by what they read from, and how often lines were lost before they could be read. */
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

  /** Ends all writers; the next start goes on where they are. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const { later } of this.#entries.values()) later.cancel();
    await Promise.allSettled([...this.#entries.values()].map((entry) => entry.lock.run(() => entry.close())));
  }

  async #begin(container: Snapshot): Promise<void> {
    const entry = this.#entry(container.id);
    await entry.lock.run(async () => {
      if (entry.isRemoved || this.#isStopped) return;
      const isOver = this.deps.records.get(container.id)?.finished === true;
      if (entry.writer !== undefined && !isOver) return;
      await entry.close();
      entry.writer = undefined;
      await this.#start(entry, container);
    });
  }

  /** To be called under the lock of the entry. */
  async #start(entry: LogEntry, container: Snapshot): Promise<void> {
    entry.writer = await this.#open(container, { create: true });
    entry.writer?.start();
    entry.later.succeeded();
  }

  /** Whether `work` ended in time. Its error is thrown; one that comes later leads to another try, too. */
  async #inTime(entry: LogEntry, work: Promise<unknown>): Promise<boolean> {
    const { container } = entry;
    const isInTime = await within(finishTimeoutMs, work);
    if (!isInTime && container !== undefined) {
      work.catch((error: unknown) => {
        this.#tryLater(entry, container, error);
      });
    }
    return isInTime;
  }

  /** Nobody else would: what is known of a container is looked at once, unless something happens to it. */
  #tryLater(entry: LogEntry, container: Snapshot, error: unknown): void {
    const { id: containerId } = container;
    if (entry.isRemoved || this.#isStopped || entry.container !== container) return;
    entry.later.failed(() => void this.observe(container));
    if (entry.later.failures > 1) return;
    this.deps.log.error(
      { containerId, path: this.deps.records.get(containerId)?.path, err: messageOf(error) },
      "cannot write the log of a container, trying again",
    );
  }

  /** Returns when all is written, or it takes too long; then it goes on in the background. */
  async #end(container: Snapshot): Promise<void> {
    const entry = this.#entry(container.id);
    const ended = entry.lock.run(async () => {
      if (entry.isRemoved || this.#isStopped) return;
      // One that ended while nobody looked. A file that is gone is not made again: its pod may be about to go, too.
      entry.writer ??= await this.#open(container, {
        create: !isKnownSink(this.deps.records.get(container.id)),
      });
      return { finished: entry.writer?.finish() ?? Promise.resolve() };
    });
    const finished = ended.then((end) => end?.finished);
    if (await this.#inTime(entry, finished)) {
      entry.later.succeeded();
      return;
    }
    this.deps.log.warn({ containerId: container.id }, "a container ended, its log is not complete yet");
  }

  async #abandon(containerId: string): Promise<void> {
    const entry = this.#entry(containerId);
    await entry.lock.run(async () => {
      await entry.close();
      entry.writer = undefined;
    });
  }

  async #open(container: Snapshot, { create }: { readonly create: boolean }): Promise<LogWriter | undefined> {
    const output = this.#output(container.id);
    if (output === undefined) return undefined;
    const { history } = output.record;
    // Since there is a record the link is not the log any more, whatever name a kubelet has given it.
    if (history !== null) await removeEngineLinks(output.target, container.id);
    const written = await output.open({ create });
    if (written === undefined) {
      await output.save(output.record.position, { finished: true });
      return undefined;
    }
    try {
      const writer = await this.#goOn(container, output, written);
      const entry = this.#entry(container.id);
      entry.history = await this.#sources.openHistory(container, output);
      entry.history?.start();
      return writer;
    } catch (error) {
      await output.close();
      throw error;
    }
  }

  /** `written`: as the opening of `output` has answered. */
  async #goOn(container: Snapshot, output: LogOutput, written: Written): Promise<LogWriter> {
    const source = await this.#sourceOf(container);
    const { source: former, position, finished } = output.record;
    if (former === "file" && source === "api") {
      // The engine may have been local before, and is not any more. A file without lines was rotated just before.
      const last = written.last ?? (await output.lastBeforeReopening());
      await output.save(positionInApi(position, { ...written, last }), { source, finished: false });
      return this.#sources.open(container, source, output, { lines: 0, last });
    }
    if (former !== source || finished) await output.save(position, { source, finished: false });
    // A replay is compared with the last line, also when that is in the file before.
    const last = written.last ?? (source === "api" ? await output.lastBeforeReopening() : undefined);
    return this.#sources.open(container, source, output, { ...written, last });
  }

  async #sourceOf(container: Snapshot): Promise<LogSource> {
    return this.#sources.choose(container, this.deps.records.get(container.id));
  }

  #output(containerId: string): LogOutput | undefined {
    const { records, log } = this.deps;
    const record = records.get(containerId);
    return record === undefined ? undefined : new LogOutput(record, records, log);
  }

  #entry(containerId: string): LogEntry {
    const known = this.#entries.get(containerId);
    if (known !== undefined) return known;
    const entry = new LogEntry(this.times);
    if (this.owns(containerId)) this.#entries.set(containerId, entry);
    return entry;
  }
}
