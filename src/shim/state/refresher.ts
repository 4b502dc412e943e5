interface Lane {
  readonly running: Promise<void>;
  /** The one that begins when `running` has ended. */
  next: Promise<void> | undefined;
}

/**
 * Refreshes of one id never overlap, and a trigger during a refresh makes one more afterwards. So the inspect that
 * started last also ends last, and the newest answer wins without versions, locks or merging.
 */
export class Refresher {
  readonly #lanes = new Map<string, Lane>();

  /** `work` inspects one id and stores what it finds; it has its own deadline and may throw. */
  constructor(private readonly work: (id: string) => Promise<void>) {}

  /** Resolves when a refresh that began after this call has ended; throws what that refresh threw. */
  refresh(id: string): Promise<void> {
    const lane = this.#lanes.get(id);
    if (lane === undefined) return this.#begin(id);
    lane.next ??= lane.running.catch(() => undefined).then(() => this.#begin(id));
    return lane.next;
  }

  #begin(id: string): Promise<void> {
    const running = this.work(id);
    const lane: Lane = { running, next: undefined };
    this.#lanes.set(id, lane);
    const done = (): void => {
      // A queued refresh replaces the lane by its own when it begins.
      if (this.#lanes.get(id) === lane && lane.next === undefined) this.#lanes.delete(id);
    };
    running.then(done, done);
    return running;
  }
}
