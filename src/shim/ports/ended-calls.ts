/**
 * Hears of the end of each traced call of the CRI, with all that it waited for. Without a subscriber no call is traced.
 */
import type { CallSubject } from "../../lib/call.js";
import type { Span } from "../../lib/waits.js";

/** Must neither throw nor wait: it runs before the answer leaves. */
export interface EndedCallSubscriber {
  callEnded(call: EndedCall): void;
}

export interface EndedCall {
  readonly rpc: string;
  /** `OK`, `NOT_FOUND` … */
  readonly code: string;
  /** Of a failure, as the caller gets it, without what looks like a secret. None of ExecSync: it names the command. */
  readonly message?: string;
  /** Milliseconds since 1970. */
  readonly startedAtMs: number;
  /** The same moment by `performance.now()`, as in the spans. */
  readonly startMs: number;
  readonly ms: number;
  /** As far as it was found; what pods name is cut. */
  readonly subject: Readonly<CallSubject>;
  /** The outermost waits, in order of their begin. */
  readonly spans: readonly Span[];
  /** Spans beyond the limit. */
  readonly droppedSpans: number;
  /** The W3C trace context of the caller's gRPC metadata, if it is well-formed. */
  readonly traceParent?: string;
  /** As `traceIdOf` said at the begin. */
  readonly traceId?: string;
}

/**
 * The trace to which a call with the trace context of its caller belongs, if it is one that is exported. Requests to
 * the engine carry its id.
 */
export type TraceIdOf = (traceParent: string | undefined) => string | undefined;

/** Calls that change something, and exec probes, whose exec does. */
export function isTraced(rpc: string, readOnly: boolean): boolean {
  return !readOnly || rpc === "ExecSync";
}
