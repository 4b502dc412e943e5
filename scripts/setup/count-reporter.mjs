/** A reporter of node:test: one JSON object at the end, the counts of test-runner.mjs. */

/**
 * @typedef {{ nesting?: number, message?: string, name?: string, file?: string, line?: number, column?: number,
 *   skip?: string | boolean, todo?: string | boolean,
 *   details?: { type?: string, error?: { failureType?: string } } }} EventData
 */

/** @param {AsyncIterable<{ type: string, data: EventData }>} source @returns {AsyncGenerator<string>} */
export default async function* countReporter(source) {
  /** @type {Record<string, number>} */
  const totals = {};
  let failedSuites = 0;
  /** @type {string[]} */
  const failedFiles = [];
  /** @type {string[]} */
  const skippedTests = [];
  for await (const { type, data } of source) {
    const isTop = data.nesting === 0;
    const [, name, value] = /^(\w+) (\d+)$/.exec(data.message ?? "") ?? [];
    if (type === "test:diagnostic" && isTop && name !== undefined) totals[name] = Number(value);
    if (type === "test:fail") {
      // Test files are suites at the top.
      if (isTop) failedFiles.push(data.name ?? "");
      // The totals leave out suites that fail by themselves: at import, or in a hook.
      const { type: kind, error } = data.details ?? {};
      if (kind === "suite" && error?.failureType !== "subtestsFailed") failedSuites += 1;
    }
    if (type === "test:pass" && [data.skip, data.todo].some((reason) => (reason ?? false) !== false))
      skippedTests.push(`${[data.file, data.line, data.column].join(":")}: ${data.name ?? ""}`);
  }
  const total = (/** @type {string} */ name) => totals[name] ?? 0;
  yield JSON.stringify({
    passed: total("pass"),
    failed: total("fail") + total("cancelled") + failedSuites,
    skipped: total("skipped") + total("todo"),
    failedFiles: [...new Set(failedFiles)],
    skippedTests,
  });
}
