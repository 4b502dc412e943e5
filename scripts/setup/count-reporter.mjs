/**
 * A reporter for node's test runner: the totals of its own summary, the files of failed tests, and as JSON which tests
 * and suites were skipped (the totals leave out skipped suites); one `name value` per line.
 */

/**
 * @typedef {{ nesting?: number, message?: string, name?: string, file?: string, line?: number, column?: number,
 *   skip?: string | boolean, todo?: string | boolean }} EventData
 */

/**
 * @param {AsyncIterable<{ type: string, data: EventData }>} source
 * @returns {AsyncGenerator<string>}
 */
export default async function* countReporter(source) {
  for await (const { type, data } of source) {
    const isTotal = type === "test:diagnostic" && data.nesting === 0;
    if (isTotal && /^(pass|fail|cancelled|skipped|todo) \d+$/.test(data.message ?? ""))
      yield `${String(data.message)}\n`;
    // A file that ends before its tests do is a failed test of that name.
    const file = data.file ?? data.name ?? "";
    if (type === "test:fail" && file.endsWith(".test.ts")) yield `failedFile ${file}\n`;
    if (type === "test:pass" && [data.skip, data.todo].some((reason) => (reason ?? false) !== false)) {
      const place = [file, data.line, data.column].join(":");
      yield `skippedTest ${JSON.stringify(`${place}: ${data.name ?? ""}`)}\n`;
    }
  }
}
