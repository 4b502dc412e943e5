/** The slowest calls and the latest failures: a few of each, so that a busy node keeps no more than an idle one. */
import type { CallSubject } from "../../lib/call.js";
import type { Span } from "../../lib/waits.js";
import type { EndedCall, EndedCallSubscriber } from "../ports/ended-calls.js";

export interface RecentCall {
  readonly rpc: string;
  readonly code: string;
  readonly message: string;
  /** Since the Unix epoch. */
  readonly startedAtMs: number;
  readonly ms: number;
  readonly subject: Readonly<CallSubject>;
  /** The longest of the innermost waits; undefined when there was none. */
  readonly longestWait: { readonly what: string; readonly ms: number } | undefined;
}

interface Period {
  readonly sinceMs: number;
  /** The slowest first. */
  readonly calls: readonly RecentCall[];
}

const keptSlow = 20;
const keptFailures = 50;
/** The slowest of this period and of the one before are shown: of the last half hour at least. */
const periodMs = 30 * 60_000;

export class RecentCalls implements EndedCallSubscriber {
  #present: Period;
  #before: Period | undefined;
  /** The newest first. */
  #failures: readonly RecentCall[] = [];

  constructor(private readonly now: () => number) {
    this.#present = { sinceMs: now(), calls: [] };
  }

  callEnded(call: EndedCall): void {
    this.#turn();
    const isFailure = call.code !== "OK";
    const { sinceMs, calls } = this.#present;
    const isSlow = calls.length < keptSlow || call.ms > (calls.at(-1)?.ms ?? 0);
    if (!isFailure && !isSlow) return;
    const recent = recentOf(call);
    if (isSlow) this.#present = { sinceMs, calls: slowestFirst([...calls, recent]) };
    if (isFailure) this.#failures = [recent, ...this.#failures].slice(0, keptFailures);
  }

  slowest(): Period {
    this.#turn();
    const { calls, sinceMs } = this.#before ?? this.#present;
    return {
      sinceMs,
      calls: this.#before === undefined ? calls : slowestFirst([...calls, ...this.#present.calls]),
    };
  }

  /** The newest first. */
  failures(): readonly RecentCall[] {
    return this.#failures;
  }

  #turn(): void {
    const nowMs = this.now();
    const ageMs = nowMs - this.#present.sinceMs;
    if (ageMs < periodMs) return;
    // After a long silence, also the present one is over.
    this.#before = ageMs < 2 * periodMs ? this.#present : undefined;
    this.#present = { sinceMs: nowMs, calls: [] };
  }
}

function slowestFirst(calls: readonly RecentCall[]): readonly RecentCall[] {
  return calls.toSorted((a, b) => b.ms - a.ms).slice(0, keptSlow);
}

/** Without the spans, which may be many. */
function recentOf({ rpc, code, message = "", startedAtMs, ms, subject, spans }: EndedCall): RecentCall {
  const longest = longestOf(spans);
  const wait = longest && { what: longest.what, ms: lengthOf(longest) };
  return { rpc, code, message, startedAtMs, ms, subject, longestWait: wait };
}

function longestOf(spans: readonly Span[]): Span | undefined {
  let longest: Span | undefined;
  for (const span of spans) {
    const found = longestOf(span.children) ?? span;
    if (longest === undefined || lengthOf(found) > lengthOf(longest)) longest = found;
  }
  return longest;
}

function lengthOf({ startMs, endMs }: Span): number {
  return endMs - startMs;
}
