/** Which source the log of a container is written from, and the writer for it. */
import { access, constants } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "../lib/log.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import { ApiWriter } from "./api/api-writer.js";
import { AttachWriter } from "./attach-writer.js";
import { ClockSteps } from "./api/clock-steps.js";
import { FileWriter } from "./file/file-writer.js";
import { HistoryWriter } from "./adopted/history-writer.js";
import type { ReaderOptions } from "./file/json-file-reader.js";
import type { LogOutput } from "./sink/log-output.js";
import type { LogRecord } from "./log-record.js";
import type { Written } from "./sink/log-sink.js";
import { archiveLimitBytes, emptiedAtBytes, sourceOf, type LogSource } from "./log-source.js";
import type { LogWriter } from "./log-writer.js";
import type { TurnQueue } from "./turn-queue.js";

export interface SourceWritersDeps {
  readonly engine: Pick<Engine, "containerLogs" | "attachContainer" | "inspectContainer">;
  /** As chosen for the present engine connection. */
  readonly host: () => Pick<HostAccess, "local">;
  readonly log: Logger;
}

export class SourceWriters {
  readonly #clockSteps = new ClockSteps();

  constructor(
    private readonly deps: SourceWritersDeps,
    private readonly queue: TurnQueue,
  ) {}

  /** `record`: of its log, which says what it was written from so far. */
  async choose(container: Snapshot, record: LogRecord | undefined): Promise<LogSource> {
    const source = sourceOf(container);
    if (source !== "file") return source;
    // A position in the one is none in the other.
    if (record?.source === "api") return "api";
    return (await this.#reaches(container)) ? source : "api";
  }

  /** Whether the files of the engine's log are here to be read. */
  async #reaches({ logPath }: Snapshot): Promise<boolean> {
    if (!this.deps.host().local) return false;
    if (logPath === "") return true;
    return access(dirname(logPath), constants.R_OK).then(
      () => true,
      () => false,
    );
  }

  /** Goes on in `output`, which is open; `written` as its opening has answered. It is not started. */
  open(container: Snapshot, kind: LogSource, output: LogOutput, written: Written): LogWriter {
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
        return this.openAttached(container, output);
    }
  }

  /**
   * For a log that was a link; undefined when nothing is left to be written of that time, or cannot be read now. It is not
   * started.
   */
  async openHistory(container: Snapshot, output: LogOutput): Promise<HistoryWriter | undefined> {
    const { history } = output.record;
    if (history === null || !(await this.#reaches(container))) return undefined;
    return new HistoryWriter(output, history, readerOptions(container), this.queue, this.deps.log);
  }

  /** For a container that is about to be started, which only this source needs. */
  openAttached({ id: containerId, tty }: Snapshot, output: LogOutput): AttachWriter {
    return new AttachWriter(output, { engine: this.deps.engine, containerId, tty }, this.deps.log);
  }
}

function readerOptions({ logPath, logOptions }: Snapshot): ReaderOptions {
  return {
    path: logPath,
    archiveLimitBytes: archiveLimitBytes(logOptions),
    emptiedAtBytes: emptiedAtBytes(logOptions),
  };
}
