/** Wakes one waiter; what is notified while there is none is not lost. */
export class Notify {
  #isNotified = false;
  #wake = (): void => undefined;

  readonly notify = (): void => {
    this.#isNotified = true;
    this.#wake();
  };

  /** Resolves when `notify` has been called since this was called last. */
  async notified(): Promise<void> {
    if (!this.#isNotified) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#isNotified = false;
  }
}
