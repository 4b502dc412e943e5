import { orAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";

/** What waits for one slow reader, in order, and never more than a limit of it. */
export class EventQueue<Event> {
  #events: Promise<Event>[] = [];
  #failure: ShimError | undefined;
  #wake: () => void = () => undefined;

  constructor(private readonly limit: number) {}

  /** Events that are still being made keep their place. */
  push(event: Promise<Event>): void {
    if (this.#failure !== undefined) return;
    if (this.#events.length >= this.limit) this.overflow();
    else this.#events.push(event);
    this.#wake();
  }

  /** Forgets everything; the reader is told that it has missed events. */
  overflow(): void {
    this.#events = [];
    const reason = `the client reads too slowly: more than ${String(this.limit)} events wait for it`;
    this.#failure = new ShimError("exhausted", reason);
    this.#wake();
  }

  /** The next event. Throws its error if it could not be made, `exhausted` after an overflow, and with `signal`. */
  async next(signal: AbortSignal): Promise<Event> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const event = this.#events.shift();
      if (event !== undefined) return await orAbort(event, signal);
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await orAbort(woken, signal);
    }
  }
}
