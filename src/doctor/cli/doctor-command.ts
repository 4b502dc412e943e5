/** `dockershim doctor`: looks at the node, the engine, the kubelet and the server. Changes nothing. */
import type { ProcessIo } from "../../cli/process-io.js";
import { shownJson, shownText } from "../../lib/shown-text.js";
import { gatherFacts, type GatherOptions } from "../gather/gather-facts.js";
import { diagnose, type Report } from "../judge/diagnose.js";
import { severities } from "../finding.js";

export interface DoctorOptions extends GatherOptions {
  readonly json: boolean;
}

/** Exit code 1: a finding of severity `error`. */
export async function runDoctor(
  { json, ...options }: DoctorOptions,
  io: Pick<ProcessIo, "environment" | "readFile" | "isSocket" | "version" | "writeOut">,
): Promise<number> {
  const { facts } = await gatherFacts(options, io);
  const report = diagnose(facts, io.version, options.parts);
  io.writeOut(json ? `${shownJson(JSON.stringify(report, undefined, 2))}\n` : renderReport(report));
  return report.exitCode;
}

const indent = " ".repeat(9);

/** The report of `dockershim doctor` as a page. */
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
