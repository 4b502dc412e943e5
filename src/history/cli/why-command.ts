/** `dockershim why`: explains a pod from the history on disk. The server need not run. */
import { ShimError } from "../../lib/errors.js";
import { shownJson, shownText } from "../../lib/shown-text.js";
import type { ProcessIo } from "../../cli/process-io.js";
import type { ProgramName } from "../../shim/config/option.js";
import { type GivenFlag, resolveConfig } from "../../shim/config/resolve.js";
import { explain } from "../explain.js";
import { findSubjects } from "../find-subjects.js";
import { historyDirectory } from "../history-files.js";
import type { HistoryRecord } from "../history-record.js";
import { readHistory } from "../read-history.js";
import { renderSvg } from "../render-svg.js";
import { renderChoices, renderText } from "../render-text.js";

export interface WhyOptions {
  readonly wanted: string;
  readonly form: "text" | "json" | "svg";
  /** Of the server: the state directory may come from any of them. */
  readonly flags: readonly GivenFlag[];
  readonly programName: ProgramName;
}

/** More does not fit into the memory of this process, with all that is made of it. */
const latestBytes = 256 * 1024 ** 2;

type Io = Pick<ProcessIo, "environment" | "readFile" | "isSocket" | "writeOut" | "writeError">;

/** Exit code 2: several pods have the name. */
export async function runWhy(options: WhyOptions, io: Io, nowMs = Date.now()): Promise<number> {
  const { wanted, form, flags, programName } = options;
  const { environment, isSocket } = io;
  const read = (path: string): Promise<string> => io.readFile(path);
  const { config } = await resolveConfig(flags, environment, read, isSocket, programName);
  const directory = historyDirectory(config.stateDir);
  const { records, later, olderBytes } = await readHistory(directory, { latestBytes });
  for (const path of later) io.writeError(`not read, because a later release has written it: ${path}\n`);
  if (olderBytes > 0)
    io.writeError(
      `not read: ${olderBytes} bytes that are older than the latest ${latestBytes} of the history\n`,
    );
  // As kubectl prints ids of containers.
  const found = findSubjects(records, wanted.replace(/^docker:\/\//, ""));
  const [first, ...others] = found;
  if (first === undefined) {
    const off = config.historyMaxBytes === 0 ? "; it is off (--history-max-bytes)" : "";
    throw new ShimError("notFound", `no record of ${JSON.stringify(wanted)} in "${directory}"${off}`);
  }
  if (others.some(({ pod }) => pod !== first.pod)) {
    const choices = renderChoices(wanted, found, nowMs);
    if (form === "text") io.writeOut(choices);
    else io.writeError(choices);
    return 2;
  }
  const lost = lostSince(records, first.records[0]?.at ?? 0);
  if (lost > 0)
    io.writeError(`${lost} records of that time could not be written: the disk was full, or slow\n`);
  const explanation = explain(first, nowMs);
  if (form === "json") io.writeOut(`${shownJson(JSON.stringify(explanation, undefined, 2))}\n`);
  else io.writeOut(form === "svg" ? renderSvg(explanation) : renderText(explanation));
  if (others.length > 0 && form === "text")
    io.writeOut(
      `earlier pods of this name: ${others.map(({ podUid }) => `uid ${shownText(podUid)}`).join(", ")}\n`,
    );
  return 0;
}

function lostSince(records: readonly HistoryRecord[], fromMs: number): number {
  return records.reduce(
    (sum, record) => (record.kind === "lost" && record.at >= fromMs ? sum + record.count : sum),
    0,
  );
}
