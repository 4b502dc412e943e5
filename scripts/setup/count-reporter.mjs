/** A reporter for node's test runner: the totals of its own summary and the files of failed tests, one `name value` per line. */

/**
 * @param {AsyncIterable<{ type: string, data: { nesting?: number, message?: string, name?: string, file?: string } }>} source
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
  }
}
