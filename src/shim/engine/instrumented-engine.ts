/** Every engine call timed and counted, in one place. */
import { type Call, currentCall } from "../../lib/call.js";
import { type ErrorKind, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Engine } from "../ports/engine.js";

export type EngineVerb = keyof Engine;

export interface EngineObservation {
  readonly verb: EngineVerb;
  /** Milliseconds until the call ended; for `events` until the subscription ended. */
  readonly ms: number;
  /** Missing for a success; "not there" in an answer's own words is one. */
  readonly kind?: ErrorKind;
}

export interface InstrumentationOptions {
  readonly log: Logger;
  /** Called once for each call, when it ends. Must not throw. */
  readonly observe?: (observation: EngineObservation) => void;
  /** Milliseconds of a clock that never goes back. */
  readonly now?: () => number;
}

/**
 * `engine`, with a debug line and an observation for every call. The line goes to the log of the CRI call
 * that made it. Arguments are not logged: they hold credentials and environments. All verbs must be
 * properties of the object itself, as those of `dockerEngine` are: they are looked up once, here.
 */
export function instrument(engine: Engine, options: InstrumentationOptions): Engine {
  const { observe } = options;
  const now = options.now ?? (() => performance.now());

  const finish = (verb: EngineVerb, call: Call | undefined, startMs: number, error?: unknown): void => {
    const ms = Math.round((now() - startMs) * 1000) / 1000;
    const kind = error === undefined ? undefined : ShimError.from(error).kind;
    observe?.({ verb, ms, ...(kind === undefined ? {} : { kind }) });
    const log = call?.log ?? options.log;
    if (log.isLevelEnabled("debug"))
      log.debug({ verb, ms, ...(kind === undefined ? {} : { kind }) }, "engine call");
  };

  // Same arguments, same result: what the type checker cannot follow through `apply`.
  const calls = engine as unknown as Readonly<Record<EngineVerb, (...args: readonly unknown[]) => unknown>>;
  const timed =
    (verb: EngineVerb) =>
    async (...args: readonly unknown[]): Promise<unknown> => {
      const call = currentCall();
      const startMs = now();
      try {
        const result: unknown = await Reflect.apply(calls[verb], engine, args);
        finish(verb, call, startMs);
        return result;
      } catch (error) {
        finish(verb, call, startMs, error);
        throw error;
      }
    };

  const events: Engine["events"] = async function* (labelKey, onOpen, signal) {
    const call = currentCall();
    const startMs = now();
    let failure: unknown;
    try {
      yield* engine.events(labelKey, onOpen, signal);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      finish("events", call, startMs, failure);
    }
  };

  // Not a call: nothing is sent.
  const hasAnswered: Engine["hasAnswered"] = (recentMs) => engine.hasAnswered(recentMs);

  const verbs = Object.keys(engine) as EngineVerb[];
  const timedCalls = Object.fromEntries(verbs.map((verb) => [verb, timed(verb)]));
  return { ...timedCalls, events, hasAnswered } as unknown as Engine;
}
