import { orAbort } from "../abort.js";
import { ShimError } from "../errors.js";
import { noteWait } from "../waits.js";

/** Concurrent calls share one piece of work, which is cancelled when the last caller has left. */
export class SingleFlight<T> {
  readonly #flights = new Map<
    string,
    { readonly promise: Promise<T>; readonly stop: AbortController; callers: number }
  >();

  async run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    let flight = this.#flights.get(key);
    if (flight === undefined) {
      const stop = new AbortController();
      const promise = work(stop.signal).finally(() => {
        if (this.#flights.get(key) === flight) this.#flights.delete(key);
      });
      promise.catch(() => undefined); // The callers below handle it; when all have left, it must not be an unhandled rejection.
      flight = { promise, stop, callers: 0 };
      this.#flights.set(key, flight);
    }
    flight.callers += 1;
    // Without the key, which may be made of credentials.
    using _noted = noteWait(signal, { what: () => "work that calls share", inner: flight.stop.signal });
    try {
      return await orAbort(flight.promise, signal);
    } finally {
      flight.callers -= 1;
      if (flight.callers === 0) {
        // A caller that arrives while the cancelled work winds down must start afresh.
        if (this.#flights.get(key) === flight) this.#flights.delete(key);
        flight.stop.abort(new ShimError("cancelled", "all callers left"));
      }
    }
  }
}
