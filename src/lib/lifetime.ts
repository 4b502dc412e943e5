import { orAbort, withDeadline } from "./abort.js";
import { messageOf } from "./errors.js";
import type { Logger } from "./log.js";

export interface CloseLimits {
  /** For one step. */
  readonly stepMs: number;
  /** For all steps together; each of them is begun all the same. */
  readonly allMs: number;
}

/** As short as this, so that the promise of docs/run/faults.md holds. */
const defaultLimits: CloseLimits = { stepMs: 3_000, allMs: 5_000 };

/**
 * What a program has opened, in order, with how each is closed. Closing goes backwards. A step that fails is
 * logged, one that does not end in time also abandoned; neither stops the others.
 */
export class Lifetime {
  readonly #steps: {
    readonly name: string;
    readonly close: (abandoned: readonly string[]) => Promise<unknown>;
  }[] = [];
  readonly #abandoned: string[] = [];

  constructor(
    private readonly log: Pick<Logger, "error">,
    private readonly limits: CloseLimits = defaultLimits,
  ) {}

  /** `close` is told which steps before it were abandoned: what they use may still be in use. */
  onClose(name: string, close: (abandoned: readonly string[]) => Promise<unknown>): void {
    this.#steps.push({ name, close });
  }

  /** Runs one step of the end that comes before all others. Never throws. */
  async first(name: string, limitMs: number, work: () => Promise<unknown>): Promise<void> {
    await this.#run(name, limitMs, work);
  }

  /** Names of steps that did not end in their time, and may still be at work. */
  get abandoned(): readonly string[] {
    return this.#abandoned;
  }

  /** Never throws. */
  async close(): Promise<void> {
    const endMs = performance.now() + this.limits.allMs;
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      const { name, close } = step;
      const leftMs = Math.max(0, endMs - performance.now());
      await this.#run(name, Math.min(this.limits.stepMs, leftMs), () => close(this.#abandoned));
    }
  }

  async #run(name: string, limitMs: number, work: () => Promise<unknown>): Promise<void> {
    try {
      await withDeadline(undefined, Math.ceil(limitMs), "close", async (signal) => {
        try {
          await orAbort(work(), signal);
        } finally {
          if (signal.aborted) this.#abandoned.push(name);
        }
      });
    } catch (error) {
      this.log.error({ step: name, err: messageOf(error) }, "cannot close");
    }
  }
}
