/** The time line of a pod, and what it says of the pod. Pure. */
import { causesOf } from "./causes.js";
import type { PodHistory, PodRecord } from "./find-subjects.js";
import type { RecordedSpan, RecordSubject } from "./history-record.js";

export interface Step {
  /** The end of a container is `exit`. */
  readonly kind: PodRecord["kind"];
  /** Milliseconds since 1970: the begin of a call, the end of a container. */
  readonly at: number;
  /** How long the call took, or the container ran. */
  readonly ms: number;
  readonly what: string;
  /** `OK`, or code and error; of a container its exit code. */
  readonly result: string;
  readonly failed: boolean;
  readonly subject: RecordSubject;
  readonly waits: readonly RecordedSpan[];
  readonly droppedWaits?: number;
}

export interface Explanation {
  readonly pod: string;
  readonly podUid: string;
  readonly container?: string;
  readonly at: number;
  /** The most telling first; never empty. */
  readonly causes: readonly string[];
  readonly steps: readonly Step[];
}

export function explain({ pod, podUid, container, records }: PodHistory, nowMs: number): Explanation {
  const causes = causesOf(records, nowMs);
  return {
    ...{ pod, podUid, ...(container === undefined ? {} : { container }), at: nowMs },
    causes: causes.length === 0 ? ["no call of it is on record that was slow or failed"] : causes,
    steps: records.map(stepOf),
  };
}

function stepOf(record: PodRecord): Step {
  const { at, ms, subject, error } = record;
  const name = subject.containerName ?? "";
  const more = error === undefined ? "" : `: ${error}`;
  if (record.kind === "exit") {
    const { exitCode, oomKilled, execs, failedExecs = 0 } = record;
    const what = subject.containerId === undefined ? "the pause container ended" : `"${name}" ended`;
    const probes = execs === undefined ? "" : `, ${execs} more execs, of which ${failedExecs} failed`;
    const result = `exit code ${exitCode}${oomKilled ? ", OOMKilled" : ""}${probes}${more}`;
    return { kind: "exit", at, ms, what, result, failed: exitCode !== 0, subject, waits: [] };
  }
  const { rpc, code, exitCode, repeats, spans, droppedSpans } = record;
  const of = rpc === "PullImage" ? (subject.image ?? "") : name;
  const exit = exitCode === undefined ? "" : `, exit code ${exitCode}`;
  const before = repeats === undefined ? "" : `, ${repeats} more like it before`;
  return {
    ...{
      kind: "call",
      at,
      ms,
      what: of === "" ? rpc : `${rpc} of "${of}"`,
      result: `${code}${exit}${before}${more}`,
    },
    failed: code !== "OK" || (exitCode ?? 0) !== 0,
    ...{ subject, waits: spans, ...(droppedSpans === undefined ? {} : { droppedWaits: droppedSpans }) },
  };
}
