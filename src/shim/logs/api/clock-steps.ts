/** Tells when the system's clock was set back. One timer for all that listen, and none while nobody does. */

const lookMs = 10_000;
/** Corrections in smaller steps than this do not disturb the order of lines. */
const smallestStepMs = 1_000;

export class ClockSteps {
  readonly #listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #differenceMs = 0;

  constructor(private readonly everyMs = lookMs) {}

  /** Answers how to stop listening. */
  onSetBack(listener: () => void): () => void {
    this.#listeners.add(listener);
    if (this.#timer === undefined) {
      this.#differenceMs = difference();
      this.#timer = setInterval(() => {
        this.#look();
      }, this.everyMs).unref();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #look(): void {
    const before = this.#differenceMs;
    this.#differenceMs = difference();
    if (before - this.#differenceMs < smallestStepMs) return;
    for (const listener of [...this.#listeners]) listener();
  }
}

function difference(): number {
  return Date.now() - performance.now();
}
