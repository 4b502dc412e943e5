/** Names of the files of the history: `v1-00000001.jsonl`, the oldest with the lowest number. */
import { join } from "node:path";
import { namesInSync } from "../lib/files/directories.js";

const version = 1;
const form = /^v(\d{1,9})-(\d{1,15})\.jsonl$/;

/** Below the state directory. */
export function historyDirectory(stateDirectory: string): string {
  return join(stateDirectory, "history");
}

export function fileName(number: number): string {
  return `v${version}-${String(number).padStart(8, "0")}.jsonl`;
}

/** The file that is written, or was last. A directory that cannot be read has none. */
export function latestFile(directory: string): string | undefined {
  try {
    const latest = sortNames(namesInSync(directory)).numbers.at(-1);
    return latest === undefined ? undefined : join(directory, fileName(latest));
  } catch {
    return undefined;
  }
}

export interface HistoryFiles {
  /** Ascending. */
  readonly numbers: readonly number[];
  /** Names of files that a later release has written. */
  readonly later: readonly string[];
}

/** Names of other forms do not count. */
export function sortNames(names: Iterable<string>): HistoryFiles {
  const numbers: number[] = [];
  const later: string[] = [];
  for (const name of names) {
    const [, itsVersion, number] = form.exec(name) ?? [];
    if (itsVersion === undefined) continue;
    if (Number(itsVersion) > version) later.push(name);
    else if (fileName(Number(number)) === name) numbers.push(Number(number));
  }
  return { numbers: numbers.sort((a, b) => a - b), later: later.sort() };
}
