/** Reads the history, also while a server writes it. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { namesIn } from "../lib/files/directories.js";
import { fileError, unlessMissing } from "../lib/files/file-errors.js";
import { fileName, sortNames } from "./history-files.js";
import { decodeRecord, type HistoryRecord } from "./history-record.js";

export interface ReadHistory {
  /** In the order in which they were written: calls by their ends. */
  readonly records: readonly HistoryRecord[];
  /** Paths of files of a later release, which are not read. */
  readonly later: readonly string[];
}

/**
 * Files that are removed meanwhile are left out, and so are lines that are torn or not understood. `mentions` leaves
 * out lines without the text, which costs less than to parse them.
 */
export async function readHistory(
  directory: string,
  { mentions = "" }: { readonly mentions?: string } = {},
): Promise<ReadHistory> {
  const records: HistoryRecord[] = [];
  try {
    const { numbers, later } = sortNames(await namesIn(directory));
    for (const number of numbers) {
      const text = await readFile(join(directory, fileName(number)), "utf8").catch(unlessMissing);
      for (const line of (text ?? "").split("\n")) {
        if (line === "" || !line.includes(mentions)) continue;
        const record = decodeRecord(line);
        if (record !== undefined) records.push(record);
      }
    }
    return { records, later: later.map((name) => join(directory, name)) };
  } catch (error) {
    throw fileError("read the history in", directory, error);
  }
}
