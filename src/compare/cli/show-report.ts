/** `dockershim shadow report FILE`: the report as a page. */
import { readFile } from "node:fs/promises";
import type { ShadowReport } from "../shadow/shadow-report.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { cutText, shownText } from "../../lib/shown-text.js";
import type { ProcessIo } from "../../cli/process-io.js";

/** The exit code: 2 when there are differences that are not intended. */
export async function runShowReport(
  path: string,
  { writeOut }: Pick<ProcessIo, "writeOut">,
): Promise<number> {
  const report = await readReport(path);
  writeOut(renderReport(report));
  return report.differences.some(({ intended }) => intended === undefined) ? 2 : 0;
}

async function readReport(path: string): Promise<ShadowReport> {
  let report: ShadowReport;
  try {
    report = JSON.parse(await readFile(path, "utf8")) as ShadowReport;
  } catch (error) {
    throw new ShimError(
      "invalid",
      `read report ${JSON.stringify(path)}: ${messageOf(error)}; name the file of --report`,
    );
  }
  // Its members are what the writer of this version wrote.
  const { format, version } = report as { format?: unknown; version?: unknown };
  if (format === "dockershim-shadow-report" && version === 1) return report;
  throw new ShimError(
    "invalid",
    `read report ${JSON.stringify(path)}: not a report of "dockershim shadow" of version 1; name the file of --report`,
  );
}

export function renderReport(
  report: ShadowReport,
  { left, right } = { left: "primary", right: "shadow" },
): string {
  const { primary, shadow, startedAt, updatedAt, complete, rpcs, differences, unobserved } = report;
  const lines = [
    `${left.padEnd(9)}${primary.server}  ${primary.socket}`,
    `${right.padEnd(9)}${shadow.server}  ${shadow.socket}`,
    `from     ${startedAt} to ${updatedAt}${complete ? "" : ", still running or killed"}`,
    "",
    row("RPC", "observed", "compared", "equal", "passing", "unconfirmed", "skipped"),
    ...Object.entries(rpcs)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([rpc, { observed, compared, equal, passing, unconfirmed, skipped }]) =>
        row(rpc, ...[observed, compared, equal, passing, unconfirmed, skipped].map(String)),
      ),
    "",
  ];
  const missing = Object.entries({
    "calls dropped by the relay": unobserved.dropped,
    "connections not followed": unobserved.givenUp,
    "questions without an answer": report.unanswered.count,
    "kinds of differences without room": report.moreKinds,
    "starts of the observer after the first": Math.max(0, report.starts - 1),
  }).filter(([, count]) => count > 0);
  for (const [what, count] of missing) lines.push(`${what}: ${String(count)}`);
  if (report.unanswered.last !== "") lines.push(`last question without an answer: ${report.unanswered.last}`);
  if (missing.length > 0) lines.push("");
  if (differences.length === 0) lines.push("no differences");
  for (const { rpc, field, intended, count, first, last, examples } of differences) {
    lines.push(`${rpc} ${field}: ${String(count)} times, ${first} to ${last}`);
    if (intended !== undefined) lines.push(`  intended: ${intended.reason}`);
    for (const example of examples)
      lines.push(
        `  ${example.subject}`,
        `    ${left.padEnd(9)}${example.primary}`,
        `    ${right.padEnd(9)}${example.shadow}`,
      );
  }
  return `${lines.map((line) => cutText(shownText(line), 100)).join("\n")}\n`;
}

function row(name: string, ...cells: readonly string[]): string {
  return name.padEnd(24) + cells.map((cell) => cell.padStart(12)).join("");
}
