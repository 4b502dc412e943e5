/** `dockershim doctor`: looks at the node, the engine, the kubelet and the server. Changes nothing. */
import type { ProcessIo } from "../../cli/process-io.js";
import { shownJson } from "../../lib/shown-text.js";
import { gatherFacts, type GatherOptions } from "../gather/gather-facts.js";
import { diagnose } from "../judge/diagnose.js";
import { renderReport } from "./render-report.js";

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
