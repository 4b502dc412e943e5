import { orAbort } from "../abort.js";
import { ShimError } from "../errors.js";
import { noteWait } from "../waits.js";

interface Flight<T> {
  readonly promise: Promise<T>;
  readonly stop: AbortController;
  callers: number;
}

/** Concurrent calls share one piece of work, which is cancelled when the last caller has left. */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();

  async run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const known = this.#flights.get(key);
    const stop = known?.stop ?? new AbortController();
    // Without the key, which may be made of credentials. Before the work begins, whose waits are below this one.
    using _noted = noteWait(signal, { action: "work that calls share", inner: stop.signal });
    const flight = known ?? this.#begin(key, stop, work);
    flight.callers += 1;
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

  #begin(key: string, stop: AbortController, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const promise = work(stop.signal).finally(() => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    });
    promise.catch(() => undefined); // The callers handle it; when all have left, it must not be an unhandled rejection.
    const flight = { promise, stop, callers: 0 };
    this.#flights.set(key, flight);
    return flight;
  }
}
