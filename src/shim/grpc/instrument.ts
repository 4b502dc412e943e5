/** What all calls have in common: cancellation, timing, log lines, errors to status. */
import { runInCall, type Call, type CallSubject, type CallUnderWay } from "../../lib/call.js";
import { ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { redactText } from "../../lib/redact.js";
import { LinkingController } from "../../lib/abort.js";
import { describeWaits, traceBelow, waitedFor, type Trace } from "../../lib/waits.js";
import { isTraced, type EndedCallSubscriber, type TraceIdOf } from "../ports/ended-calls.js";
import { UndecodableRequest } from "./codec/method.js";
import type { Rpc } from "./handlers.js";
import { ofNothing, ofUnimplemented, type RequestSubject } from "./request-subject.js";
import { codeName, status, statusOf, type CallStatus } from "./status.js";

/** The part of a call that tells whether the client still waits for the answer. */
export interface IncomingCall {
  readonly cancelled: boolean;
  once(event: "cancelled", listener: () => void): unknown;
  removeListener(event: "cancelled", listener: () => void): unknown;
  /** Milliseconds of `Date.now()`; Infinity without one. */
  getDeadline(): number;
  readonly traceParent?: string | undefined;
}

export interface Observation {
  readonly rpc: string;
  /** `OK`, `NOT_FOUND` … */
  readonly code: string;
  readonly ms: number;
}

export interface InstrumentOptions {
  readonly log: Logger;
  /** Hears of every call that was answered. */
  readonly observe?: ((observation: Observation) => void) | undefined;
  /** Hear of each traced call that was answered. */
  readonly subscribers?: readonly EndedCallSubscriber[] | undefined;
  readonly traceIdOf?: TraceIdOf | undefined;
  /** A call that takes longer is logged once. Default: 30 s. */
  readonly slowMs?: number;
}

interface InFlight {
  readonly call: Call;
  readonly isStream: boolean;
  readonly startMs: number;
  isReported: boolean;
}

/** A call of which subscribers will hear. */
interface TracedCall {
  readonly trace: Trace;
  readonly subject: CallSubject;
  readonly startedAtMs: number;
  readonly startMs: number;
  readonly traceParent: string | undefined;
  readonly traceId: string | undefined;
}

const defaultSlowMs = 30_000;
/** Version 00 of the W3C trace context; later versions may be longer. */
const traceParentForm = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/;

export interface Work<T> {
  /** Name of the RPC. */
  readonly name: string;
  /** Undefined when the RPC is not implemented, as is `handle`. */
  readonly rpc: Rpc | undefined;
  readonly request: object;
  readonly handle: ((call: Call) => Promise<T>) | undefined;
  /** A server stream stays open as long as its client likes; it must not hold up a shutdown. */
  readonly isStream: boolean;
}

export type Outcome<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly status: CallStatus };

/** Runs the calls of one server and knows those in flight. */
export class Instrument {
  readonly #inFlight = new Map<AbortController, InFlight>();
  #slowTimer: NodeJS.Timeout | undefined;
  #requests = 0;
  #idleListeners: (() => void)[] = [];

  constructor(private readonly options: InstrumentOptions) {}

  /** Calls without an answer, the oldest first; without streams, which stay open. */
  readonly underWay = (): readonly CallUnderWay[] => {
    const nowMs = performance.now();
    return [...this.#inFlight.values()]
      .filter(({ isStream }) => !isStream)
      .map(({ call: { rpc, pod, signal }, startMs }) => ({
        ...{ rpc, ...(pod === undefined ? {} : { pod }) },
        ...{ ms: Math.round(nowMs - startMs), waitsFor: describeWaits(signal) },
      }));
  };

  /** Never rejects: each throw of the handler becomes an outcome. */
  async run<T>(incoming: IncomingCall, work: Work<T>): Promise<Outcome<T>> {
    const { name: rpc, request } = work;
    const startMs = performance.now();
    const controller = new LinkingController();
    const onCancelled = (): void => {
      controller.abort(departure(rpc, incoming.getDeadline(), describeWaits(controller.signal)));
    };
    if (incoming.cancelled) onCancelled();
    else incoming.once("cancelled", onCancelled);

    this.#requests += 1;
    const readOnly = work.rpc?.readOnly === true;
    const subjectOf =
      request instanceof UndecodableRequest ? ofNothing : (work.rpc?.subject ?? ofUnimplemented);
    const subject = subjectOf(request);
    const log = this.options.log.child({ rpc, req: this.#requests, ...subject });
    const { signal } = controller;
    const traced = this.#trace(incoming, work, { signal, startMs, subject });
    const about = traced === undefined ? {} : { subject: traced.subject };
    const call: Call = { rpc, signal, log, underWay: this.underWay, ...about };
    if (subject.pod !== undefined) call.pod = subject.pod;
    this.#inFlight.set(controller, { call, isStream: work.isStream, startMs, isReported: false });
    this.#watch();
    log[readOnly ? "debug" : "info"]("started");
    try {
      const value = await runInCall(call, () => this.#handle(work, call));
      this.#report(call, readOnly, performance.now() - startMs, undefined);
      this.#tell(call, traced, undefined);
      return { ok: true, value };
    } catch (thrown) {
      const error = classify(thrown, controller.signal);
      this.#report(call, readOnly, performance.now() - startMs, error);
      this.#tell(call, traced, error);
      return { ok: false, status: statusOf(error) };
    } finally {
      incoming.removeListener("cancelled", onCancelled);
      this.#inFlight.delete(controller);
      if (this.#inFlight.size === 0) for (const listener of this.#idleListeners.splice(0)) listener();
    }
  }

  /** Aborts the signals of calls in flight with `reason`. */
  abort(which: "all" | "streams", reason: ShimError): void {
    for (const [controller, { isStream }] of this.#inFlight) {
      if (which === "all" || isStream) controller.abort(reason);
    }
  }

  /** Resolves when no handler runs, also none whose client has left. */
  async idle(): Promise<void> {
    if (this.#inFlight.size === 0) return;
    await new Promise<void>((resolve) => this.#idleListeners.push(resolve));
  }

  /** Undefined for calls of which no subscriber hears. */
  #trace<T>(
    { traceParent: parent }: IncomingCall,
    { name, rpc }: Work<T>,
    begin: { readonly signal: AbortSignal; readonly startMs: number; readonly subject: RequestSubject },
  ): TracedCall | undefined {
    const { subscribers = [] } = this.options;
    if (subscribers.length === 0 || rpc === undefined || !isTraced(name, rpc.readOnly)) return undefined;
    const { container, ...subject } = begin.subject;
    const traceParent = parent !== undefined && traceParentForm.test(parent) ? parent : undefined;
    const traceId = this.options.traceIdOf?.(traceParent);
    return {
      trace: traceBelow(begin.signal, { traceId }),
      subject: { ...subject, ...(container === undefined ? {} : { containerName: container }) },
      startedAtMs: Date.now(),
      startMs: begin.startMs,
      ...{ traceParent, traceId },
    };
  }

  #tell(call: Call, traced: TracedCall | undefined, error: ShimError | undefined): void {
    if (traced === undefined) return;
    const { trace, subject, startedAtMs, startMs, traceParent, traceId } = traced;
    // What the engine says of an exec that fails names its command.
    const withoutErrors = call.rpc === "ExecSync";
    const { spans, dropped } = trace.end({ withoutErrors });
    const { code, details } = error === undefined ? { code: status.OK } : statusOf(error);
    const words = details === undefined || withoutErrors ? {} : { message: redactText(details) };
    const ended = {
      ...{ rpc: call.rpc, code: codeName(code), ...words },
      ...{ startedAtMs, startMs, ms: performance.now() - startMs },
      ...{ subject: call.pod === undefined ? subject : { ...subject, pod: call.pod } },
      ...{ spans, droppedSpans: dropped },
      ...(traceParent === undefined ? {} : { traceParent }),
      ...(traceId === undefined ? {} : { traceId }),
    };
    for (const subscriber of this.options.subscribers ?? []) {
      try {
        subscriber.callEnded(ended);
      } catch (thrown) {
        call.log.error({ err: classify(thrown).message }, "subscriber of ended calls failed");
      }
    }
  }

  /** One timer for all calls, and none while there are none. */
  #watch(): void {
    if (this.#slowTimer !== undefined) return;
    const { slowMs = defaultSlowMs } = this.options;
    this.#slowTimer = setTimeout(() => {
      this.#slowTimer = undefined;
      const nowMs = performance.now();
      const watched = [...this.#inFlight.values()].filter(
        ({ isStream, isReported }) => !isStream && !isReported,
      );
      for (const entry of watched) {
        const ms = Math.round(nowMs - entry.startMs);
        if (ms < slowMs) continue;
        entry.isReported = true;
        entry.call.log.warn({ ms, waitsFor: describeWaits(entry.call.signal) }, "call is slow");
      }
      if (watched.some(({ isReported }) => !isReported)) this.#watch();
    }, slowMs / 3);
    this.#slowTimer.unref();
  }

  // async, so that a synchronous throw of the handler is a rejection like any other.
  async #handle<T>({ name, request, handle }: Work<T>, call: Call): Promise<T> {
    if (request instanceof UndecodableRequest) throw request.error;
    if (handle === undefined) throw new ShimError("unsupported", `${name} is not implemented by dockershim`);
    return await handle(call);
  }

  #report(call: Call, readOnly: boolean, exactMs: number, error: ShimError | undefined): void {
    const ms = Math.round(exactMs * 10) / 10;
    const code = codeName(error === undefined ? status.OK : statusOf(error).code);
    if (error === undefined) call.log[readOnly ? "debug" : "info"]({ code, ms }, "answered");
    else logFailure(call, readOnly, error, { ...error.fields, code, ms, err: statusOf(error).details });
    try {
      this.options.observe?.({ rpc: call.rpc, code, ms: exactMs });
    } catch (observerError) {
      call.log.error({ err: classify(observerError).message }, "call observer failed");
    }
  }
}

function logFailure(call: Call, readOnly: boolean, error: ShimError, fields: Record<string, unknown>): void {
  switch (error.kind) {
    case "internal": {
      const { stack } = error.cause instanceof Error ? error.cause : error;
      call.log.error({ ...fields, stack }, "failed by a bug of dockershim");
      break;
    }
    case "cancelled":
      call.log[readOnly ? "debug" : "info"](fields, "cancelled");
      break;
    case "unsupported":
    case "unavailable":
    case "notFound":
      // Kubelets probe for features, repeat lists while the engine is away, and ask for what was removed.
      call.log[readOnly ? "debug" : "warn"](fields, "failed");
      break;
    default:
      call.log.warn(fields, "failed");
  }
}

/** A timer may strike a moment before the clock reaches its time. */
const timerSlackMs = 5;

function departure(rpc: string, deadline: number, waits: readonly string[]): ShimError {
  return deadline <= Date.now() + timerSlackMs
    ? new ShimError("timeout", `${rpc}: the deadline of the caller has passed${waitedFor(waits)}`)
    : new ShimError("cancelled", `${rpc}: the caller has left${waitedFor(waits)}`);
}

/** What a handler threw as ShimError; once its signal is aborted, foreign errors are consequences of that. */
function classify(thrown: unknown, signal?: AbortSignal): ShimError {
  if (thrown instanceof ShimError) return thrown;
  if (signal?.aborted === true) return ShimError.from(signal.reason);
  try {
    return ShimError.from(thrown);
  } catch (error) {
    // Objects without a prototype cannot be turned into text.
    return new ShimError("internal", "something was thrown that has no text", {}, { cause: error });
  }
}
