/** An explanation as text: causes first, then the time line. Pure. */
import { formatSpan, formatTime } from "./durations.js";
import type { Explanation, Step } from "./explain.js";
import type { PodHistory } from "./find-subjects.js";
import type { RecordedSpan } from "./history-record.js";

const mostCauses = 5;
const spanColumns = 9;

export function renderText(explanation: Explanation): string {
  const { pod, podUid, container, causes, steps, at } = explanation;
  const name = container === undefined ? pod : `${pod} "${container}"`;
  const [first = "", ...others] = causes.slice(0, mostCauses);
  const lines = [
    `${name}: ${first}`,
    ...others.map((cause) => `also: ${cause}`),
    "",
    `uid ${podUid === "" ? "unknown" : podUid}; times are UTC`,
    ...steps.flatMap((step) => linesOf(step, at)),
  ];
  return lines.map((line) => `${plain(line)}\n`).join("");
}

/** For a name that several pods have. */
export function renderChoices(wanted: string, found: readonly PodHistory[], nowMs: number): string {
  const lines = found.map(({ pod, podUid, container, records }) => {
    const last = formatTime(records.at(-1)?.at ?? 0, nowMs);
    return `  ${pod}${container === undefined ? "" : ` "${container}"`}  uid ${podUid}  last seen ${last}`;
  });
  return [`${found.length} pods have "${wanted}"; name one by its uid:`, ...lines]
    .map((line) => `${plain(line)}\n`)
    .join("");
}

function linesOf(
  { at, ms, kind, what, result, waits, droppedWaits }: Step,
  nowMs: number,
): readonly string[] {
  const time = formatTime(at, nowMs);
  const took = `${kind === "exit" ? "ran " : ""}${formatSpan(ms)}`;
  const indent = " ".repeat(time.length);
  const dropped = droppedWaits === undefined ? [] : [`${indent}  … ${droppedWaits} more waits`];
  return [
    `${time}  ${took.padStart(spanColumns)}  ${what}: ${result}`,
    ...waits.flatMap((wait) => linesOfWait(wait, 1)).map((line) => `${indent}  ${line}`),
    ...dropped,
  ];
}

function linesOfWait({ what, kind, ms, error, below = [] }: RecordedSpan, depth: number): readonly string[] {
  const who = kind === "wait" ? "" : `${kind}: `;
  const failure = error === undefined ? "" : `: ${error}`;
  return [
    `${formatSpan(ms).padStart(spanColumns)}  ${"  ".repeat(depth)}${who}${what}${failure}`,
    ...below.flatMap((one) => linesOfWait(one, depth + 1)),
  ];
}

/** Errors and names may have characters that a terminal acts on. */
function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu, " ");
}
