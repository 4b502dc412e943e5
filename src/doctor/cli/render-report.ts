/** The report of `dockershim doctor` as a page. */
import type { Report } from "../judge/diagnose.js";
import { shownText } from "../../lib/shown-text.js";
import { severities } from "../finding.js";

const indent = " ".repeat(9);

export function renderReport(report: Report): string {
  const { findings, details, checks, engine } = report;
  const subject = engine.version === "" ? "" : ` Docker Engine ${engine.version}, API ${engine.apiVersion}.`;
  const shown = details.map((line) => `${shownText(line)}\n`).join("");
  if (findings.length === 0) return `${shown}Healthy: ${checks} checks found nothing.${subject}\n`;
  const blocks = findings.map(
    ({ severity, what, meaning, remedy }) =>
      `${severity.padEnd(indent.length)}${shownText(what)}\n${indent}${shownText(meaning)}\n${remedy === "" ? "" : `${indent}→ ${shownText(remedy)}\n`}`,
  );
  const counts = severities.flatMap((severity) => {
    const count = findings.filter((finding) => finding.severity === severity).length;
    return count === 0 ? [] : [`${count} ${severity}${count === 1 ? "" : "s"}`];
  });
  const isHealthy = findings.every(({ severity }) => severity === "note");
  const verdict = isHealthy ? `Healthy: ${counts.join(", ")}` : counts.join(", ");
  return `${shown}${blocks.join("\n")}\n${verdict}; ${checks} checks.${subject}\n`;
}
