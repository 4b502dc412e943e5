/** Turns what happens to pods into records of the history. Environments, commands and their output are not part of it. */
import { LruMap } from "../lib/lru-map.js";
import { redactText } from "../lib/redact.js";
import type { Span } from "../lib/waits.js";
import type { EndedCall, EndedCallSubscriber } from "../shim/ports/ended-calls.js";
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
/** An exec probe that takes as long has a record. */
const slowExecMs = 1000;
const mostContainers = 2000;

interface ExecResults {
  readonly result: string;
  repeats: number;
}

export class History implements EndedCallSubscriber {
  /** Exec probes come all the time: those with the result of the one before are only counted. */
  readonly #execs = new LruMap<string, ExecResults>(mostContainers);

  constructor(private readonly add: (record: HistoryRecord) => void) {}

  callEnded(call: EndedCall): void {
    const { rpc, subject } = call;
    if (ofNoPod.has(rpc)) return;
    if (rpc === "ExecSync") this.#execEnded(call, subject.containerId ?? "");
    else this.add(recordOf(call));
  }

  containerEnded({ endedAtMs, ranMs, exitCode, oomKilled, error, subject }: EndedContainer): void {
    const words = error === "" ? {} : { error: cutText(redactText(error)) };
    const times = { at: endedAtMs, ms: Math.max(0, ranMs) };
    const { repeats = 0 } = this.#execs.get(subject.containerId ?? "") ?? {};
    this.#execs.delete(subject.containerId ?? "");
    const execs = repeats === 0 ? {} : { execs: repeats };
    this.add({
      kind: "exit",
      ...times,
      exitCode,
      oomKilled,
      ...words,
      ...execs,
      subject: subjectFor(subject),
    });
  }

  #execEnded(call: EndedCall, containerId: string): void {
    const { exitCode } = call.subject;
    const isSlow = call.ms >= slowExecMs;
    const result = `${call.code} ${exitCode ?? ""}`;
    const known = this.#execs.get(containerId);
    if (known?.result === result && !isSlow) {
      known.repeats += 1;
      return;
    }
    this.#execs.set(containerId, { result, repeats: 0 });
    const record = recordOf(call);
    const spans = isSlow ? record.spans : [];
    const repeats = known === undefined || known.repeats === 0 ? {} : { repeats: known.repeats };
    this.add({ ...record, ...(exitCode === undefined ? {} : { exitCode }), ...repeats, spans });
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
