/** test/flaky-tests.json: the files of tests that have failed once without reason in the program, each with what is known. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const LIST = "test/flaky-tests.json";

/** @typedef {{ file: string, date: string, reason: string }} FlakyTest `date`: as 2026-01-31, of the last failure */

/**
 * Throws when an entry lacks something or its file is gone.
 * @param {string} root
 * @returns {FlakyTest[]}
 */
export function readFlakyTests(root) {
  const entries = /** @type {Partial<FlakyTest>[]} */ (JSON.parse(readFileSync(join(root, LIST), "utf8")));
  return entries.map(({ file = "", date = "", reason = "" }) => {
    const isWhole =
      file !== "" && existsSync(join(root, file)) && /^\d{4}-\d\d-\d\d$/.test(date) && reason !== "";
    if (!isWhole)
      throw new Error(`${LIST}: the entry of "${file}" needs a file that exists, a date and a reason`);
    return { file, date, reason };
  });
}

/**
 * What is said at the end about files that failed and passed when they ran again.
 * @param {readonly string[]} files
 * @param {readonly FlakyTest[]} known
 */
export function flakyLines(files, known) {
  return files.flatMap((file) => {
    const entry = known.find((candidate) => candidate.file === file);
    return entry === undefined
      ? [
          "",
          `FAILED ONCE and passed when run again: ${file}`,
          `  Repair it, or add it to ${LIST} with date and reason.`,
        ]
      : ["", `FLAKY, failed once and passed when run again: ${file}`, `  ${entry.date}: ${entry.reason}`];
  });
}
