/** Opens the log file of a container and chooses the writer that continues it. */
import { tries } from "../../domain/reach.js";
import { access, constants } from "node:fs/promises";
import { dirname } from "node:path";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Logger } from "../../lib/log.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import { removeEngineLinks } from "./adopted/engine-links.js";
import { HistoryWriter } from "./adopted/history-writer.js";
import { ApiWriter } from "./api/api-writer.js";
import { ClockSteps } from "./api/clock-steps.js";
import { AttachWriter } from "./attach-writer.js";
import { FileWriter } from "./file/file-writer.js";
import type { ReaderOptions } from "./file/json-file-reader.js";
import type { LogRecords } from "./log-record.js";
import { archiveLimitBytes, emptiedAtBytes, sourceOf, type LogSource, type LogWriter } from "./log-source.js";
import { positionInApi } from "./lost-record.js";
import { LogOutput } from "./sink/log-output.js";
import type { Written } from "./sink/log-sink.js";
import type { TurnQueue } from "./turn-queue.js";
import { succeeds } from "../../lib/errors.js";

export interface WriterFactoryDeps {
  readonly engine: Pick<Engine, "containerLogs" | "attachContainer" | "inspectContainer">;
  /** As chosen for the present engine connection. */
  readonly host: () => Pick<HostAccess, "reach">;
  readonly log: Logger;
  readonly records: LogRecords;
}

export interface OpenedLog {
  /** Not started. */
  readonly writer: LogWriter;
  /** Writer of the history of a converted log, if one is to be written and can be read now. Not started. */
  readonly history: HistoryWriter | undefined;
}

/** An open log file of a container that was not started yet. */
export interface PreparedFileLog {
  readonly source: "file";
  readonly output: LogOutput;
  readonly written: Written;
}

export type PreparedLog =
  | PreparedFileLog
  /** Attached, not started. */
  | { readonly source: "attach"; readonly writer: LogWriter };

/** All its functions need a record of the container's log, and do nothing without one. */
export class WriterFactory {
  readonly #clockSteps = new ClockSteps();

  constructor(
    private readonly deps: WriterFactoryDeps,
    private readonly queue: TurnQueue,
  ) {}

  /** Makes the log file before the start. Undefined: the log is opened after it. */
  async prepare(container: Snapshot, signal: AbortSignal): Promise<PreparedLog | undefined> {
    const source = await this.#choose(container);
    const output = this.#output(container);
    if (output === undefined) return undefined;
    // What the logs API cannot tell is decided after the start.
    const written = await output.open({ create: true, ...(source === "api" ? {} : { source }) });
    if (written === undefined || source === "api") {
      await output.close();
      return undefined;
    }
    if (source === "file") return { source, output, written };
    // Attached before the start: the output is available in no other way.
    const writer = this.#attachWriter(container, output);
    try {
      await writer.attach(signal);
    } catch (error) {
      await writer.close();
      throw error;
    }
    return { source, writer };
  }

  /** After the start: Docker's file exists, and its path is known. Nothing is open when it throws. */
  async resume(container: Snapshot, { output, written }: PreparedFileLog): Promise<LogWriter> {
    try {
      return await this.#continue(container, output, written);
    } catch (error) {
      await output.close();
      throw error;
    }
  }

  /** Without `create`, a log whose file is gone is recorded as finished: then undefined. */
  async open(container: Snapshot, { create }: { readonly create: boolean }): Promise<OpenedLog | undefined> {
    const output = this.#output(container);
    if (output === undefined) return undefined;
    // Since there is a record, the link is no longer the log, under any name.
    if (output.record.history !== null) await removeEngineLinks(output.target, container.id);
    const written = await output.open({ create });
    if (written === undefined) {
      await output.save(output.record.position, { finished: true });
      return undefined;
    }
    try {
      const writer = await this.#continue(container, output, written);
      return { writer, history: await this.#historyWriter(container, output) };
    } catch (error) {
      await output.close();
      throw error;
    }
  }

  async #continue(container: Snapshot, output: LogOutput, written: Written): Promise<LogWriter> {
    const source = await this.#choose(container);
    const { source: former, position, finished } = output.record;
    // A replay is compared with the last line: of the rotated file when the present one has none yet.
    const last = written.last ?? (source === "api" ? await output.lastBeforeReopening() : undefined);
    if (former === "file" && source === "api") {
      // The engine was local before, and is not any more.
      await output.save(positionInApi(position, { ...written, last }), { source, finished: false });
      return this.#writer(container, source, output, { lines: 0, last });
    }
    if (former !== source || finished) await output.save(position, { source, finished: false });
    return this.#writer(container, source, output, { ...written, last });
  }

  async #choose(container: Snapshot): Promise<LogSource> {
    const source = sourceOf(container);
    if (source !== "file") return source;
    // A position in the logs API cannot be converted to one in Docker's file.
    if (this.deps.records.get(container.id)?.source === "api") return "api";
    return (await this.#reaches(container)) ? source : "api";
  }

  /** Whether Docker's log files can be read here. */
  async #reaches({ logPath }: Snapshot): Promise<boolean> {
    if (!tries(this.deps.host().reach, "files")) return false;
    if (logPath === "") return true;
    return succeeds(access(dirname(logPath), constants.R_OK));
  }

  #output({ id }: Snapshot): LogOutput | undefined {
    const { records, log } = this.deps;
    const record = records.get(id);
    return record === undefined ? undefined : new LogOutput(record, records, log);
  }

  #writer(container: Snapshot, kind: LogSource, output: LogOutput, written: Written): LogWriter {
    const { engine, log } = this.deps;
    switch (kind) {
      case "file":
        return new FileWriter(output, written, readerOptions(container), this.queue, log);
      case "api": {
        const { id: containerId, tty, logDriver } = container;
        const source = { engine, containerId, tty, logDriver, clockSteps: this.#clockSteps };
        return new ApiWriter(output, written, source, log);
      }
      case "attach":
        return this.#attachWriter(container, output);
    }
  }

  #attachWriter({ id: containerId, tty }: Snapshot, output: LogOutput): AttachWriter {
    return new AttachWriter(output, { engine: this.deps.engine, containerId, tty }, this.deps.log);
  }

  async #historyWriter(container: Snapshot, output: LogOutput): Promise<HistoryWriter | undefined> {
    const { history } = output.record;
    if (history === null || !(await this.#reaches(container))) return undefined;
    return new HistoryWriter(output, history, readerOptions(container), this.queue, this.deps.log);
  }
}

function readerOptions({ logPath, logOptions }: Snapshot): ReaderOptions {
  return {
    path: logPath,
    archiveLimitBytes: archiveLimitBytes(logOptions),
    emptiedAtBytes: emptiedAtBytes(logOptions),
  };
}
