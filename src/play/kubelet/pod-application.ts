/** Whether the present manifest of a pod was applied: what the caller of the pod's loop waits for. */
import { type ApplicationInput, applicationState } from "./first-application.js";

/** A promise that is settled from outside. */
class Outcome {
  resolve!: () => void;
  reject!: (reason: unknown) => void;
  readonly promise = new Promise<void>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });

  constructor() {
    this.promise.catch(() => undefined); // Its caller may come later, or never.
  }
}

export class PodApplication {
  #outcome = new Outcome();
  #isSettled = false;
  #wasApplied = false;
  #hasFailed = false;

  constructor(private readonly options: { readonly failFast: boolean }) {}

  /** The outcome of the present manifest. */
  get outcome(): Promise<void> {
    return this.#outcome.promise;
  }

  /** With `failFast`: an error before the first success has ended the loop. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** There is another manifest. */
  renew(): void {
    if (!this.#isSettled) return;
    this.#outcome = new Outcome();
    this.#isSettled = false;
  }

  /** The loop has ended. */
  end(reason: unknown): void {
    if (!this.#isSettled) this.#outcome.reject(reason);
  }

  /** Rejects the outcome with the error. Answers whether it ends the loop. */
  fails(error: unknown): boolean {
    if (this.#isSettled) return false;
    this.#outcome.reject(error);
    this.#isSettled = true;
    this.#hasFailed = this.options.failFast && !this.#wasApplied;
    return this.#hasFailed;
  }

  /** After each turn of the loop. Throws an error that ends it. */
  async check(input: ApplicationInput, deps: Parameters<typeof applicationState>[1]): Promise<void> {
    if (this.#isSettled) return;
    try {
      if ((await applicationState(input, deps)) === "pending") return;
    } catch (error) {
      if (this.fails(error)) throw error;
      return;
    }
    this.#isSettled = true;
    this.#wasApplied = true;
    this.#outcome.resolve();
  }
}
