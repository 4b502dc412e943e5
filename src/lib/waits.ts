/**
 * What work waits for at this moment, for messages about deadlines and slow calls: a tree along the abort signals that
 * end the waits. A wait is noted under the signal of its caller, and names the signal of the work that it waits for.
 * Waits below a signal that is traced are kept when they end, as spans.
 */
import { randomBytes } from "node:crypto";
import { messageOf } from "./errors.js";
import { redactText } from "./redact.js";
import { cutText } from "./shown-text.js";

/** Who is waited for. `wait`: none of the others, as a step of this program. */
export type WaitKind = "engine" | "plugin" | "program" | "lock" | "pull" | "wait";

export interface Wait {
  /** As `start container "x"`. A function is called only for a message or a span. */
  readonly action: string | (() => string);
  /** What is true only while the wait lasts, for messages; `depth` is for `describeWaits` within it. */
  readonly detail?: ((depth: number) => string) | undefined;
  /** Of the work that is waited for, if it has one of its own. */
  readonly inner?: AbortSignal | undefined;
  /** Default: `wait`. */
  readonly kind?: WaitKind | undefined;
}

export interface NotedWait extends Disposable {
  /** The wait ends with this error. Without a trace it does nothing. */
  fail(error: unknown): void;
}

/** A wait that has ended, or whose end the traced call did not await. */
export interface Span {
  /** 16 hexadecimal digits, if its work was sent with them: `traceParentOf`. */
  readonly id?: string;
  readonly what: string;
  readonly kind: WaitKind;
  /** Milliseconds of `performance.now()`. */
  readonly startMs: number;
  readonly endMs: number;
  /** The message, cut and without what looks like a secret. Undefined for a success. */
  readonly error?: string;
  readonly children: readonly Span[];
}

export interface Trace {
  /**
   * Ends the trace. Waits that last end with it. Text is made here, not by the waits. `withoutErrors`: of an error only
   * that there was one.
   */
  end(options?: { readonly withoutErrors?: boolean }): {
    readonly spans: readonly Span[];
    readonly dropped: number;
  };
}

/** How many spans a trace may still keep, and how many it did not. */
interface Budget {
  readonly traceId?: string | undefined;
  left: number;
  dropped: number;
}

/** What is noted under one signal. */
interface SignalWaits {
  readonly noted: Set<Noted>;
  /** Those whose work ends with the signal, as far as they are traced. */
  parents?: Set<Parent>;
}

interface Parent {
  /** Undefined without a trace. */
  children?: Noted[];
  budget?: Budget;
  spanId?: string;
}

/** On the signal itself, and gone with it: a WeakMap would make each garbage collection slower. */
const waitsOf = Symbol("waits");

interface WaitedSignal extends AbortSignal {
  [waitsOf]?: SignalWaits | undefined;
}

/** A call waits for one thing, or for a few side by side. */
const shownWaits = 3;
/** A message has one line, and holders of locks may wait for each other's work. */
const deepest = 8;
/** Calls that share work could wait for each other. */
const deepestSpan = 16;
const defaultSpans = 200;
const longestTextCharacters = 500;
/** What is searched for secrets, which must not be cut in two before. */
const longestErrorCharacters = 4096;

class Noted implements NotedWait, Parent {
  children?: Noted[];
  budget?: Budget;
  spanId?: string;
  readonly sinceMs = performance.now();
  endMs: number | undefined;
  error: string | undefined;

  constructor(
    readonly wait: Wait,
    private readonly place: SignalWaits,
  ) {}

  fail(error: unknown): void {
    if (this.children === undefined) return;
    this.error = cutText(
      redactText(messageOf(error).slice(0, longestErrorCharacters)),
      longestTextCharacters,
    );
  }

  [Symbol.dispose](): void {
    this.place.noted.delete(this);
    if (this.children === undefined) return;
    this.endMs = performance.now();
    // Work that calls share goes on without this one.
    if (this.wait.inner !== undefined) placeIfAny(this.wait.inner)?.parents?.delete(this);
  }

  get action(): string {
    const { action } = this.wait;
    return typeof action === "string" ? action : action();
  }

  describe(depth: number): string {
    const detail = this.wait.detail?.(depth) ?? "";
    return detail === "" ? this.action : `${this.action}, ${detail}`;
  }
}

/** The wait lasts until it is disposed of. */
export function noteWait(signal: AbortSignal, wait: Wait): NotedWait {
  const place = placeOf(signal);
  const noted = new Noted(wait, place);
  place.noted.add(noted);
  if (place.parents !== undefined) for (const parent of place.parents) keep(noted, parent);
  return noted;
}

/**
 * Waits below `signal` become spans until the trace is ended; `spans` at most, the others are counted. `traceId`: of a
 * trace that other programs continue.
 */
export function traceBelow(
  signal: AbortSignal,
  { spans = defaultSpans, traceId }: { readonly spans?: number; readonly traceId?: string | undefined } = {},
): Trace {
  const root: Parent = { children: [], budget: { traceId, left: spans, dropped: 0 } };
  const fromMs = performance.now();
  adopt(signal, root);
  return {
    end: ({ withoutErrors = false } = {}) => {
      placeIfAny(signal)?.parents?.delete(root);
      const budget = { left: spans, dropped: 0 };
      const limits = { fromMs, toMs: performance.now(), depth: 0, budget, withoutErrors };
      const found = toSpans(root.children ?? [], limits);
      return { spans: found, dropped: (root.budget?.dropped ?? 0) + budget.dropped };
    },
  };
}

/** For a program that is sent work: the W3C trace context of the wait for what ends with `signal`. */
export function traceParentOf(signal: AbortSignal): string | undefined {
  for (const parent of placeIfAny(signal)?.parents ?? []) {
    const traceId = parent.budget?.traceId;
    if (traceId === undefined) continue;
    parent.spanId ??= randomBytes(8).toString("hex");
    return `00-${traceId}-${parent.spanId}-01`;
  }
  return undefined;
}

/** The innermost waits below `signal` with their ages, as `start container "x" (31 s)`; none without a wait. */
export function describeWaits(signal: AbortSignal, depth = 0): readonly string[] {
  if (depth >= deepest) return [];
  const nowMs = performance.now();
  // Each gives one description at least. All of them, of each level, may be more than there is time for.
  const first = [...(placeIfAny(signal)?.noted ?? [])].slice(0, shownWaits);
  const found = first.flatMap((noted) => {
    const { inner } = noted.wait;
    const below = inner === undefined ? [] : describeWaits(inner, depth + 1);
    return below.length > 0 ? below : [`${noted.describe(depth + 1)} (${formatAge(nowMs - noted.sinceMs)})`];
  });
  return found.slice(0, shownWaits);
}

/** For the end of a message; empty without a wait. */
export function waitedFor(descriptions: readonly string[]): string {
  return descriptions.length === 0 ? "" : `; it waited for: ${descriptions.join(", ")}`;
}

/** `120 ms`, `31 s`. */
export function formatAge(milliseconds: number): string {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${Math.floor(milliseconds / 1000)} s`;
}

function placeIfAny(signal: AbortSignal): SignalWaits | undefined {
  return (signal as WaitedSignal)[waitsOf];
}

function placeOf(signal: AbortSignal): SignalWaits {
  const waited: WaitedSignal = signal;
  return (waited[waitsOf] ??= { noted: new Set() });
}

/** Waits under `signal`, those that last and those to come, are children of `parent`. */
function adopt(signal: AbortSignal, parent: Parent): void {
  const place = placeOf(signal);
  (place.parents ??= new Set()).add(parent);
  for (const noted of place.noted) keep(noted, parent);
}

function keep(noted: Noted, { children, budget }: Parent): void {
  if (children === undefined || budget === undefined) return;
  if (budget.left === 0) {
    budget.dropped += 1;
    return;
  }
  budget.left -= 1;
  children.push(noted);
  if (noted.children !== undefined) return;
  // Work that calls share is kept once, and counts for the first of them.
  noted.children = [];
  noted.budget = budget;
  if (noted.wait.inner !== undefined) adopt(noted.wait.inner, noted);
}

interface SpanLimits {
  /** Of the wait around. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly depth: number;
  readonly budget: Budget;
  readonly withoutErrors: boolean;
}

function toSpans(
  kept: readonly Noted[],
  { fromMs, toMs, depth, budget, withoutErrors }: SpanLimits,
): readonly Span[] {
  const spans: Span[] = [];
  for (const noted of kept) {
    // Work that calls share may begin before the wait for it, and go on after it.
    const startMs = Math.max(noted.sinceMs, fromMs);
    const endMs = Math.min(noted.endMs ?? toMs, toMs);
    if (endMs < startMs) continue;
    if (budget.left === 0 || depth === deepestSpan) {
      budget.dropped += 1;
      continue;
    }
    budget.left -= 1;
    const { wait, spanId: id } = noted;
    const error = noted.error !== undefined && withoutErrors ? "failed" : noted.error;
    const what = cutText(noted.action, longestTextCharacters);
    const kind = wait.kind ?? "wait";
    const inner = { fromMs: startMs, toMs: endMs, depth: depth + 1, budget, withoutErrors };
    const children = toSpans(noted.children ?? [], inner);
    // Not put together from parts: each call comes here.
    const span = { what, kind, startMs, endMs, children };
    if (id === undefined && error === undefined) spans.push(span);
    else
      spans.push({ ...span, ...(id === undefined ? {} : { id }), ...(error === undefined ? {} : { error }) });
  }
  return spans;
}
