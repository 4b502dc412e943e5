/** What the history has: one JSON object a line. Texts are cut when a record is made. */
import type { WaitKind } from "../lib/waits.js";
import { asList, asObject, flagOf, type Json, numberOf, textOf } from "../lib/json/json-readers.js";

/** What a record is about, as far as it is known. */
export interface RecordSubject {
  /** `namespace/name` */
  readonly pod?: string;
  readonly podUid?: string;
  readonly sandboxId?: string;
  readonly containerId?: string;
  readonly containerName?: string;
  readonly image?: string;
}

export interface RecordedSpan {
  readonly what: string;
  readonly kind: WaitKind;
  /** Milliseconds since the begin of the call. */
  readonly at: number;
  readonly ms: number;
  readonly error?: string;
  readonly below?: readonly RecordedSpan[];
}

export interface CallRecord {
  readonly kind: "call";
  /** The begin, in milliseconds since 1970. */
  readonly at: number;
  readonly rpc: string;
  readonly ms: number;
  readonly code: string;
  readonly error?: string;
  /** What ExecSync ran ended with it. */
  readonly exitCode?: number;
  /** Execs with the same result before this one that have no record of their own. */
  readonly repeats?: number;
  readonly subject: RecordSubject;
  readonly spans: readonly RecordedSpan[];
  readonly droppedSpans?: number;
}

/** A container, or the pause container of a sandbox, has ended. */
export interface ExitRecord {
  readonly kind: "exit";
  readonly at: number;
  readonly exitCode: number;
  readonly oomKilled: boolean;
  /** How long it ran. */
  readonly ms: number;
  /** Execs in it, since the last records of their results. */
  readonly execs?: number;
  readonly failedExecs?: number;
  readonly error?: string;
  readonly subject: RecordSubject;
}

/** Records that could not be written. */
export interface LostRecord {
  readonly kind: "lost";
  readonly at: number;
  readonly count: number;
}

export type HistoryRecord = CallRecord | ExitRecord | LostRecord;

const longestLineBytes = 64 * 1024;
const longestTextCharacters = 500;

export function cutText(text: string): string {
  return text.length <= longestTextCharacters ? text : `${text.slice(0, longestTextCharacters - 1)}…`;
}

/** With its end of line. A call with too many spans for a line is written without them. */
export function encodeRecord(record: HistoryRecord): Buffer {
  const line = Buffer.from(`${JSON.stringify(record)}\n`);
  if (line.length <= longestLineBytes || record.kind !== "call") return line;
  const droppedSpans = (record.droppedSpans ?? 0) + countOf(record.spans);
  return Buffer.from(`${JSON.stringify({ ...record, spans: [], droppedSpans })}\n`);
}

function countOf(spans: readonly RecordedSpan[]): number {
  return spans.reduce((sum, { below = [] }) => sum + 1 + countOf(below), 0);
}

/** Undefined for a torn line, for one without a time that there is, and for a record of a kind that is not known. */
export function decodeRecord(line: string): HistoryRecord | undefined {
  let json: Json;
  try {
    json = asObject(JSON.parse(line));
  } catch {
    return undefined;
  }
  const at = numberOf(json, "at");
  if (Number.isNaN(new Date(at).getTime())) return undefined;
  const subject = subjectOf(asObject(json["subject"]));
  const error = optionalText(json, "error");
  switch (json["kind"]) {
    case "call":
      return {
        ...{
          kind: "call",
          at,
          rpc: textOf(json, "rpc"),
          ms: numberOf(json, "ms"),
          code: textOf(json, "code"),
        },
        ...error,
        ...optionalNumber(json, "exitCode"),
        ...optionalNumber(json, "repeats"),
        ...optionalNumber(json, "droppedSpans"),
        ...{ subject, spans: spansOf(json["spans"]) },
      };
    case "exit": {
      const [exitCode, ms] = [numberOf(json, "exitCode"), numberOf(json, "ms")];
      const execs = { ...optionalNumber(json, "execs"), ...optionalNumber(json, "failedExecs") };
      return {
        kind: "exit",
        at,
        exitCode,
        oomKilled: flagOf(json, "oomKilled"),
        ms,
        ...error,
        ...execs,
        subject,
      };
    }
    case "lost":
      return { kind: "lost", at, count: numberOf(json, "count") };
    default:
      return undefined;
  }
}

export const subjectKeys = ["pod", "podUid", "sandboxId", "containerId", "containerName", "image"] as const;

function subjectOf(json: Json): RecordSubject {
  return Object.fromEntries(subjectKeys.flatMap((key) => Object.entries(optionalText(json, key))));
}

const kinds: readonly WaitKind[] = ["engine", "plugin", "program", "lock", "pull"];

function spansOf(value: unknown): readonly RecordedSpan[] {
  return asList(value).map((each) => {
    const json = asObject(each);
    const below = spansOf(json["below"]);
    return {
      ...{ what: textOf(json, "what"), kind: kinds.find((kind) => kind === json["kind"]) ?? "wait" },
      ...{ at: numberOf(json, "at"), ms: numberOf(json, "ms") },
      ...optionalText(json, "error"),
      ...(below.length === 0 ? {} : { below }),
    };
  });
}

function optionalText<Key extends string>(json: Json, key: Key): { readonly [K in Key]?: string } {
  const text = textOf(json, key);
  return (text === "" ? {} : { [key]: text }) as { readonly [K in Key]?: string };
}

function optionalNumber<Key extends string>(json: Json, key: Key): { readonly [K in Key]?: number } {
  return (json[key] === undefined ? {} : { [key]: numberOf(json, key) }) as { readonly [K in Key]?: number };
}
