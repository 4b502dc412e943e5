/** The record on disk of each container's log: its owner, its path, and its position. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { removeFile, sweepTemporaryFiles, writeFileAtomically } from "../../lib/files/atomic-file.js";
import { createDirectory, namesIn } from "../../lib/files/directories.js";
import { messageOf } from "../../lib/errors.js";
import { isFileKey, quarantineFile } from "../../lib/files/state-files.js";
import type { Logger } from "../../lib/log.js";
import type { LogSource } from "./log-source.js";

/** A position in the source: all output before it is in the first `size` bytes of the sink. */
export interface SourcePosition {
  /** Docker's file: the hash of its first line (empty: none was read yet), and an offset in bytes. */
  readonly file: string;
  readonly offset: number;
  /** Logs API: whole seconds since the epoch, and the number of written lines of a replay from there. */
  readonly since: number;
  readonly lines: number;
  /** A line about lost lines, to be written before the next one. */
  readonly notice: string;
}

export interface SinkPosition {
  readonly inode: string;
  /** In bytes, at the source's position. */
  readonly size: number;
}

/** `cri`: a file in the CRI's format, written by this program. `docker`: a link to the engine's file. */
export type LogFormat = "cri" | "docker";

/** Of a converted link: the entries of Docker's file before a position, which are still to be written. */
export interface LogHistory {
  /** The name that a rotation gave the link. */
  readonly path: string;
  readonly file: string;
  readonly offset: number;
}

export interface LogRecord {
  readonly version: 1;
  readonly containerId: string;
  /** Decided when the container was created. Records of early versions lack it and mean `cri`. */
  readonly format: LogFormat;
  readonly directory: string;
  readonly path: string;
  /** Undefined before the first start. */
  readonly source: LogSource | undefined;
  readonly position: SourcePosition;
  /** The log file; its inode is empty before it exists. */
  readonly sink: SinkPosition;
  /**
   * The file before the last reopening, and the position then. A kubelet that did not receive the answer
   * renames it back, over the new file.
   */
  readonly former: (SinkPosition & { readonly position: SourcePosition }) | null;
  /** Everything up to the end of the container is written. */
  readonly finished: boolean;
  /** How often the engine had dropped lines before they were read. */
  readonly gaps: number;
  /** Null when there is none, or it is written. Records of early versions lack it. */
  readonly history: LogHistory | null;
}

export const beginning: SourcePosition = { file: "", offset: 0, since: 0, lines: 0, notice: "" };

/** Of a new container. */
export function newRecord(
  containerId: string,
  { directory, path }: Pick<LogRecord, "directory" | "path">,
  format: LogFormat = "cri",
): LogRecord {
  return {
    version: 1,
    containerId,
    format,
    directory,
    path,
    source: undefined,
    position: beginning,
    sink: { inode: "", size: 0 },
    former: null,
    finished: false,
    gaps: 0,
    history: null,
  };
}

/** The second pattern is of earlier versions, which unpacked compressed files of the engine on the disk. */
const temporary = [/^\.dockershim-[0-9a-f]{16}$/, /^[0-9a-f]{64}\.unpacked$/];
const suffix = ".json";

/** The records of one directory, `<id>.json` each. Calls for one id must not overlap. */
export class LogRecords {
  readonly #records = new Map<string, LogRecord>();

  private constructor(
    private readonly directory: string,
    private readonly log: Pick<Logger, "error">,
  ) {}

  /**
   * Throws only when the directory cannot be made or listed. Corrupt records are quarantined and reported.
   */
  static async open(
    directory: string,
    log: Pick<Logger, "error">,
    quarantineDirectory: string,
  ): Promise<LogRecords> {
    const records = new LogRecords(directory, log);
    await createDirectory(directory, 0o700);
    await sweepTemporaryFiles(directory, { patterns: temporary }).catch((error: unknown) => {
      log.error({ err: messageOf(error) }, "cannot remove temporary files of a crashed writer");
    });
    for (const name of await namesIn(directory)) {
      const id = name.endsWith(suffix) ? name.slice(0, -suffix.length) : "";
      if (isFileKey(id)) await records.#load(id, quarantineDirectory);
    }
    return records;
  }

  get(id: string): LogRecord | undefined {
    return this.#records.get(id);
  }

  ids(): readonly string[] {
    return [...this.#records.keys()];
  }

  /**
   * Stores a record before it counts: it decides who writes a log. With `flush: "first"` it outlives a power
   * cut: for records that lead to the removal of something else. The others belong to log files that are not
   * flushed, either.
   */
  async put(record: LogRecord, flush: "first" | "never" = "never"): Promise<void> {
    await this.#write(record, flush);
    this.#records.set(record.containerId, record);
  }

  /** Stores a position. After a power cut the log file is compared with an older position, or with none. */
  async move(record: LogRecord): Promise<void> {
    this.#records.set(record.containerId, record);
    await this.#write(record, "never");
  }

  async remove(id: string): Promise<void> {
    if (!this.#records.delete(id)) return;
    await removeFile(this.#path(id));
  }

  async #write(record: LogRecord, flush: "first" | "never"): Promise<void> {
    await writeFileAtomically(this.#path(record.containerId), JSON.stringify(record), {
      mode: 0o600,
      temporaryPrefix: ".dockershim-",
      flush,
    });
  }

  #path(id: string): string {
    return join(this.directory, id + suffix);
  }

  async #load(id: string, quarantineDirectory: string): Promise<void> {
    const path = this.#path(id);
    try {
      const record = parseRecord(await readFile(path, "utf8"));
      if (record?.containerId === id) {
        this.#records.set(id, record);
        return;
      }
      const quarantined = await quarantineFile(path, quarantineDirectory, "log");
      this.log.error({ containerId: id, path, quarantined }, "corrupt log record, moved to the quarantine");
    } catch (error) {
      this.log.error({ containerId: id, path, err: messageOf(error) }, "cannot read log record, ignored");
    }
  }
}

export function parseRecord(text: string): LogRecord | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof parsed !== "object" || parsed === null) return undefined;
  const value = parsed as Partial<Record<keyof LogRecord, unknown>>;
  const { version, containerId, directory, path, source, sink, former, finished, gaps } = value;
  const { format = "cri", history = null } = value;
  const ok =
    version === 1 &&
    (format === "cri" || format === "docker") &&
    [containerId, directory, path].every((text) => typeof text === "string" && text !== "") &&
    (source === undefined || source === "file" || source === "api" || source === "attach") &&
    isPosition(value.position) &&
    hasFields(sink, sinkFields) &&
    (former === null ||
      (hasFields(former, sinkFields) && isPosition((former as { position?: unknown }).position))) &&
    typeof finished === "boolean" &&
    typeof gaps === "number" &&
    (history === null || hasFields(history, { path: "string", file: "string", offset: "number" }));
  // The checks above cover every field of the type.
  return ok ? ({ ...value, format, history } as LogRecord) : undefined;
}

const sinkFields = { inode: "string", size: "number" } as const;

function isPosition(value: unknown): boolean {
  return hasFields(value, {
    file: "string",
    offset: "number",
    since: "number",
    lines: "number",
    notice: "string",
  });
}

function hasFields(value: unknown, fields: Readonly<Record<string, "string" | "number">>): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(fields).every(([name, type]) => {
    const field = (value as Record<string, unknown>)[name];
    return (
      typeof field === type && (type === "string" || (Number.isSafeInteger(field) && Number(field) >= 0))
    );
  });
}
