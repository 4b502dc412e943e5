import { isKind, ShimError } from "../../lib/errors.js";
import { formatDuration, orAbort, withDeadline, inBackground } from "../../lib/abort.js";
import type { Engine } from "../ports/engine.js";

/** An answer of this time proves that the engine is there now. */
const recentMs = 2_000;
/** How long a caller waits for the answer to a ping. */
const waitMs = 3_000;
/**
 * An engine that is asked and answers nothing for this time is taken for dead, and not for slow. It is the
 * time that kubelets give a runtime that does not say how it is.
 */
export const silenceMs = 30_000;

/**
 * Whether the engine is there. A loaded host delays answers for many seconds: as long as one comes now and
 * then, pods can be run, and a node that is reported as not ready only gets more work.
 */
export class EngineLiveness {
  /** The latest ping. */
  #ping: { readonly beganAtMs: number; readonly answer: Promise<void> } | undefined;
  /** Begin of the first ping since the latest answer. */
  #askedAtMs: number | undefined;

  /** `now`: milliseconds of a clock that never goes back. */
  constructor(
    private readonly engine: Pick<Engine, "ping" | "hasAnswered">,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Whether an answer has come within two seconds. */
  isProven(): boolean {
    return this.engine.hasAnswered(recentMs);
  }

  /** Throws why the engine is not there, or the reason of `signal`. Returns after three seconds at the latest. */
  async check(signal: AbortSignal): Promise<void> {
    try {
      await withDeadline(signal, waitMs, "ping the engine", (limited) => orAbort(this.#pinged(), limited));
    } catch (error) {
      if (signal.aborted || !isKind(error, "timeout")) throw error;
      if (this.#isSilent())
        throw new ShimError("timeout", `ping the engine: no answer for ${formatDuration(silenceMs)}`);
    }
  }

  #isSilent(): boolean {
    const { engine } = this;
    return this.now() - (this.#askedAtMs ?? Infinity) >= silenceMs && !engine.hasAnswered(silenceMs);
  }

  /** A ping in three seconds. Callers that leave do not end it: a late answer counts, too. */
  #pinged(): Promise<void> {
    const nowMs = this.now();
    if (this.#ping !== undefined && nowMs - this.#ping.beganAtMs < waitMs) return this.#ping.answer;
    if (this.#askedAtMs === undefined || this.engine.hasAnswered(nowMs - this.#askedAtMs))
      this.#askedAtMs = nowMs;
    // The end of the program breaks its connection.
    const { signal } = new AbortController();
    const answer = inBackground(
      this.engine.ping({ timeoutMs: silenceMs }, signal).finally(() => {
        if (this.#ping?.answer === answer) this.#ping = undefined;
      }),
    );
    this.#ping = { beganAtMs: nowMs, answer };
    return answer;
  }
}
