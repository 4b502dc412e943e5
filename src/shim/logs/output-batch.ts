/** All pieces of output that arrive together are written together. */
export class OutputBatch {
  #work: Promise<void> | undefined;

  constructor(private readonly write: () => Promise<void>) {}

  /** Settles with the one write that takes what has been given so far and what is given in the same turn. */
  settled(): Promise<void> {
    this.#work ??= Promise.resolve().then(() => {
      this.#work = undefined;
      return this.write();
    });
    // Whoever reads may have failed in the meantime, and waits no more.
    this.#work.catch(() => undefined);
    return this.#work;
  }
}
