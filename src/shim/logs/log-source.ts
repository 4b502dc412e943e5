/** Sources of a container's output, by its log driver, and what each of their writers implements. */
import type { Snapshot } from "../../domain/snapshot.js";

/** A longer line of Docker's file is not an entry. */
export const longestEntryBytes = 8 * 1024 * 1024;
const unknownArchiveBytes = 1024 ** 3;

export type LogSource = "file" | "api" | "attach";

/** Writes the log of one container from one source. */
export interface LogWriter {
  start(): void;
  /** The container has ended: resolves when all its output is in the log, or with `close`. Never rejects. */
  finish(): Promise<void>;
  /** Continues in a new file at the log path. */
  reopen(): Promise<void>;
  /** Stops at once. When it returns, nothing more is written, and the position is recorded. */
  close(): Promise<void>;
}

/**
 * The cheapest source that is correct: Docker's file of JSON lines; the logs API for drivers that can be read
 * back (since 20.10 all, by a cache of the engine beside the others); the output itself for the rest.
 */
export function sourceOf({ logDriver, logOptions }: Pick<Snapshot, "logDriver" | "logOptions">): LogSource {
  switch (logDriver) {
    case "json-file":
      return "file";
    case "local":
    case "journald":
      return "api";
    case "none":
      return "attach";
    default:
      return /^(?:1|t|true)$/i.test(logOptions["cache-disabled"] ?? "") ? "attach" : "api";
  }
}

/** `max-size` of a log that Docker keeps in one file, which it empties when it is full; else undefined. */
export function emptiedAtBytes(options: Snapshot["logOptions"]): number | undefined {
  const maximum = parseSize(options["max-size"] ?? "");
  return maximum !== undefined && Number(options["max-file"] ?? "1") <= 1 ? maximum : undefined;
}

/** The largest unpacked size of an archive: Docker rotates before the entry that exceeds `max-size`. */
export function archiveLimitBytes(options: Snapshot["logOptions"]): number {
  // Docker compresses only with a `max-size`.
  return (parseSize(options["max-size"] ?? "") ?? unknownArchiveBytes) + longestEntryBytes;
}

/** Docker's notation: decimal units, `10m` are ten million bytes. */
function parseSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?) ?([kmgtp]?)(?:i?b)?$/i.exec(text);
  if (match === null) return undefined;
  const power = ["", "k", "m", "g", "t", "p"].indexOf((match[2] ?? "").toLowerCase());
  return Number(match[1]) * 1000 ** power;
}
