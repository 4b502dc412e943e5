/** An explanation as text: causes first, then the time line. Pure. */
import { formatSpan, formatTime } from "./durations.js";
import type { Explanation, Step } from "./explain.js";
import type { PodHistory } from "./find-subjects.js";
import type { RecordedSpan } from "./history-record.js";

const mostCauses = 5;
const mostChoices = 50;
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
  const lines = found.slice(0, mostChoices).map(({ pod, podUid, container, records }) => {
    const last = formatTime(records.at(-1)?.at ?? 0, nowMs);
    return `  ${pod}${container === undefined ? "" : ` "${container}"`}  uid ${podUid}  last seen ${last}`;
  });
  const rest = found.length > mostChoices ? [`  and ${found.length - mostChoices} more`] : [];
  return [`${found.length} pods have "${wanted}"; name one by its uid:`, ...lines, ...rest]
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

function linesOfWait(wait: RecordedSpan, depth: number): readonly string[] {
  const { what, kind, ms, error, below = [] } = wait;
  const [first] = below;
  // A deadline around one request says the same as the request.
  if (kind === "wait" && below.length === 1 && first?.what === what) return linesOfWait(first, depth);
  const who = kind === "wait" ? "" : `${kind}: `;
  const failure = error === undefined ? "" : `: ${error}`;
  return [
    `${formatSpan(ms).padStart(spanColumns)}  ${"  ".repeat(depth)}${who}${what}${failure}`,
    ...below.flatMap((one) => linesOfWait(one, depth + 1)),
  ];
}

/** Errors and names may have characters that a terminal acts on. Ids are as docker ps shows them. */
function plain(text: string): string {
  const oneLine = text.replaceAll(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu, " ");
  return oneLine.replaceAll(/\b([\da-f]{12})[\da-f]{52}\b/g, "$1");
}
