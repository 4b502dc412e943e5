/** Wakes one waiter; what rings while nobody waits is not lost. */
export class Bell {
  #isRung = false;
  #wake = (): void => undefined;

  readonly ring = (): void => {
    this.#isRung = true;
    this.#wake();
  };

  /** Resolves when it has rung since this was called last. */
  async rung(): Promise<void> {
    if (!this.#isRung) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#isRung = false;
  }
}
