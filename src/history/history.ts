/** Turns what happens to pods into records of the history. Environments, commands and their output are not part of it. */
import { redactText } from "../lib/redact.js";
import type { Span } from "../lib/waits.js";
import type { EndedCall, EndedCallSubscriber } from "../shim/ports/ended-calls.js";
import { ExecResults, slowExecMs } from "./exec-results.js";
import {
  cutText,
  subjectKeys,
  type CallRecord,
  type HistoryRecord,
  type RecordedSpan,
  type RecordSubject,
} from "./history-record.js";

/** A container that has ended. */
export interface EndedContainer {
  readonly endedAtMs: number;
  readonly ranMs: number;
  readonly exitCode: number;
  readonly oomKilled: boolean;
  /** The engine's words. */
  readonly error: string;
  readonly subject: RecordSubject;
}

/** Calls about no pod. */
const ofNoPod: ReadonlySet<string> = new Set(["UpdateRuntimeConfig", "RemoveImage"]);
/** Waits of this program itself that are shorter say nothing. */
const shortestWaitMs = 1;

export class History implements EndedCallSubscriber {
  readonly #execs = new ExecResults();

  constructor(private readonly add: (record: HistoryRecord) => void) {}

  callEnded(call: EndedCall): void {
    const { rpc } = call;
    if (ofNoPod.has(rpc)) return;
    if (rpc === "ExecSync") this.#execEnded(call);
    else this.add(recordOf(call));
  }

  containerEnded({ endedAtMs, ranMs, exitCode, oomKilled, error, subject }: EndedContainer): void {
    const words = error === "" ? {} : { error: cutText(redactText(error)) };
    const times = { at: endedAtMs, ms: Math.max(0, ranMs) };
    const { execs, failed } = this.#execs.end(subject.containerId ?? "");
    this.add({
      kind: "exit",
      ...times,
      exitCode,
      oomKilled,
      ...words,
      ...(execs === 0 ? {} : { execs }),
      ...(failed === 0 ? {} : { failedExecs: failed }),
      subject: subjectFor(subject),
    });
  }

  #execEnded(call: EndedCall): void {
    const repeats = this.#execs.note(call);
    if (repeats === undefined) return;
    const { exitCode } = call.subject;
    const record = recordOf(call);
    const spans = call.ms >= slowExecMs ? record.spans : [];
    const counted = repeats === 0 ? {} : { repeats };
    this.add({ ...record, ...(exitCode === undefined ? {} : { exitCode }), ...counted, spans });
  }
}

function recordOf(call: EndedCall): CallRecord {
  const { rpc, code, message, startedAtMs, startMs, ms, subject, spans, droppedSpans } = call;
  return {
    ...{ kind: "call", at: startedAtMs, rpc, ms: rounded(ms), code },
    ...(message === undefined ? {} : { error: cutText(message) }),
    subject: subjectFor(subject),
    spans: recordedSpans(spans, startMs),
    ...(droppedSpans === 0 ? {} : { droppedSpans }),
  };
}

function subjectFor(subject: RecordSubject): RecordSubject {
  const known: { -readonly [Key in keyof RecordSubject]: RecordSubject[Key] } = {};
  for (const key of subjectKeys) {
    const text = subject[key];
    if (text !== undefined && text !== "") known[key] = cutText(text);
  }
  return known;
}

function recordedSpans(spans: readonly Span[], callStartMs: number): readonly RecordedSpan[] {
  const recorded: RecordedSpan[] = [];
  for (const { what, kind, startMs, endMs, error, children } of spans) {
    const below = recordedSpans(children, callStartMs);
    const ms = endMs - startMs;
    if (kind === "wait" && error === undefined && below.length === 0 && ms < shortestWaitMs) continue;
    const span = { what: cutText(what), kind, at: rounded(startMs - callStartMs), ms: rounded(ms) };
    if (error === undefined) recorded.push(below.length === 0 ? span : { ...span, below });
    else recorded.push({ ...span, error: cutText(error), ...(below.length === 0 ? {} : { below }) });
  }
  return recorded;
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}
