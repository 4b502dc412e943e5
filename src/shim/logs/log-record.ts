/** The record on disk of each container's log: its owner, its path, and its position. */
import { RecordDirectory, type RecordDirectoryOptions } from "../../lib/files/record-directory.js";
import {
  isCount,
  isString,
  objectOf,
  oneOf,
  optional,
  type RecordType,
  type SchemaOf,
} from "../../lib/files/record-format.js";
import type { Logger } from "../../lib/log.js";
import type { LogSource } from "./log-source.js";

/** A position in the source: all output before it is in the first `size` bytes of the sink. */
export interface SourcePosition {
  /** Docker's file: the hash of its first line (empty: none was read yet), and an offset in bytes. */
  readonly file: string;
  readonly offset: number;
  /** Logs API: whole seconds since the epoch. What is written from there on, the log file's last line tells. */
  readonly since: number;
  /** Logs API: earlier versions counted the written lines. 1 when there are some. */
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

/** The entries of Docker's file before a position, which are still to be written: of a converted link. */
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
  /** Before the last reopening: a kubelet without the answer renames it back, over the new file. */
  readonly former: (SinkPosition & { readonly position: SourcePosition }) | null;
  /** Everything up to the end of the container is written. */
  readonly finished: boolean;
  /** How often the engine had dropped lines before they were read. */
  readonly gaps: number;
  /** Null when there is none, or it is written. Records of early versions lack it. */
  readonly history: LogHistory | null;
}

export const beginning: SourcePosition = { file: "", offset: 0, since: 0, lines: 0, notice: "" };

/** The record of a new container. */
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

const isName = (value: unknown): boolean => isString(value) && value !== "";

const positionSchema = {
  file: isString,
  offset: isCount,
  since: isCount,
  lines: isCount,
  notice: isString,
} satisfies SchemaOf<SourcePosition>;
const sinkSchema = { inode: isString, size: isCount } satisfies SchemaOf<SinkPosition>;
const isFormer = objectOf({ ...sinkSchema, position: positionSchema });
const isHistory = objectOf({
  path: isString,
  file: isString,
  offset: isCount,
} satisfies SchemaOf<LogHistory>);

export const logRecordType: RecordType<LogRecord> = {
  kind: "log",
  subject: "container",
  idField: "containerId",
  idOf: ({ containerId }) => containerId,
  schema: {
    version: (value) => value === 1,
    containerId: isName,
    format: optional(oneOf(["cri", "docker"])),
    directory: isName,
    path: isName,
    source: optional(oneOf(["file", "api", "attach"])),
    position: positionSchema,
    sink: sinkSchema,
    former: (value) => value === null || isFormer(value),
    finished: (value) => typeof value === "boolean",
    gaps: (value) => typeof value === "number",
    history: optional((value) => value === null || isHistory(value)),
  } satisfies SchemaOf<LogRecord>,
  // The schema covers every field of the type.
  fromFile: (object) => ({ format: "cri", history: null, ...object }) as unknown as LogRecord,
  format: (record) => JSON.stringify(record),
  // Earlier versions unpacked compressed files of the engine on the disk.
  temporary: [/^[0-9a-f]{64}\.unpacked$/],
};

/** The records of one directory. Calls for one id must not overlap. */
export class LogRecords extends RecordDirectory<LogRecord> {
  /** Throws only when the directory cannot be made or listed. */
  static async open(
    directory: string,
    log: Pick<Logger, "error">,
    quarantineDirectory: string,
    options: Pick<RecordDirectoryOptions, "delayMs"> = {},
  ): Promise<LogRecords> {
    const records = new LogRecords(logRecordType, directory, log, { quarantineDirectory, ...options });
    await records.load();
    return records;
  }

  ids(): readonly string[] {
    return [...this.all()].map(({ containerId }) => containerId);
  }

  /** Stored before it counts. `first`, for what leads to a removal, outlives a power cut. */
  override put(record: LogRecord, flush: "first" | "never" = "never"): Promise<void> {
    return flush === "first" ? this.putFlushed(record) : super.put(record);
  }

  /**
   * Counts at once. What only goes on from the position before is stored within a second: after a kill the log
   * file is compared with an older position. After a power cut it is compared with any older one, or with none.
   */
  async move(record: LogRecord): Promise<void> {
    const mayWait = goesOn(this.get(record.containerId), record);
    this.putLater(record);
    if (!mayWait) await this.put(record);
  }
}

/** Whether all that differs can be found again by the record before: how far source and file are read and written. */
function goesOn(before: LogRecord | undefined, record: LogRecord): boolean {
  // A log that was never opened is made again by StartContainer.
  if (before === undefined) return record.sink.inode === "";
  const { position, sink, finished, ...rest } = record;
  return (
    position.notice === before.position.notice &&
    [position.file, ""].includes(before.position.file) &&
    sink.inode === before.sink.inode &&
    (finished || !before.finished) &&
    Object.entries(rest).every(([key, value]) => value === before[key as keyof LogRecord])
  );
}
