/** One run at a time, and at most one that waits, with the newest request. `work` never throws. */
export class CoalescedWork<T> {
  #running: Promise<void> | undefined;
  #waiting: { readonly value: T } | undefined;

  constructor(private readonly work: (value: T) => Promise<void>) {}

  /** Begins at once, or when the present run has ended. */
  request(value: T): void {
    this.#waiting = { value };
    this.#running ??= this.#runAll();
  }

  /** Resolves when nothing runs or waits any longer. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #runAll(): Promise<void> {
    try {
      for (let next = this.#waiting; next !== undefined; next = this.#waiting) {
        this.#waiting = undefined;
        await this.work(next.value);
      }
    } finally {
      this.#running = undefined;
    }
  }
}
