/** Reads the history, also while a server writes it. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { namesIn } from "../lib/files/directories.js";
import { fileError, unlessMissing } from "../lib/files/file-errors.js";
import { fileName, sortNames } from "./history-files.js";
import { decodeRecord, type HistoryRecord } from "./history-record.js";

export interface ReadHistory {
  /** In the order in which they were written: calls by their ends. */
  readonly records: readonly HistoryRecord[];
  /** Paths of files of a later release, which are not read. */
  readonly later: readonly string[];
  /** Of what is older than the latest bytes that were wanted. */
  readonly olderBytes: number;
}

export interface Selection {
  /** Lines without the text are left out, which costs less than to parse them. */
  readonly mentions?: string;
  /** What is older than this many bytes is not read. Default: all is read. */
  readonly latestBytes?: number;
}

/** Files that are removed meanwhile are left out, and so are lines that are torn or not understood. */
export async function readHistory(
  directory: string,
  { mentions = "", latestBytes = Infinity }: Selection = {},
): Promise<ReadHistory> {
  const records: HistoryRecord[] = [];
  try {
    const { numbers, later } = sortNames(await namesIn(directory));
    const paths = numbers.map((number) => join(directory, fileName(number)));
    let olderBytes = 0;
    for (const { path, start, end } of await latestParts(paths, latestBytes)) {
      olderBytes += start;
      if (start > 0 && start === end) continue;
      const text = await textOf(createReadStream(path, { start })).catch(unlessMissing);
      for (const line of (text ?? "").split("\n")) {
        if (line === "" || !line.includes(mentions)) continue;
        const record = decodeRecord(line);
        if (record !== undefined) records.push(record);
      }
    }
    return { records, later: later.map((name) => join(directory, name)), olderBytes };
  } catch (error) {
    throw fileError("read the history in", directory, error);
  }
}

interface Part {
  readonly path: string;
  /** The first of the latest bytes; the same as `end` where it has none of them. */
  readonly start: number;
  readonly end: number;
}

/** Of files, the oldest first, where the latest bytes begin. */
async function latestParts(paths: readonly string[], bytes: number): Promise<readonly Part[]> {
  const parts: Part[] = [];
  let left = bytes;
  for (const path of paths.toReversed()) {
    const { size } = (await stat(path).catch(unlessMissing)) ?? { size: 0 };
    parts.unshift({ path, start: Math.max(0, size - left), end: size });
    left = Math.max(0, left - size);
  }
  return parts;
}
