/** Time as the kubelet's loop sees it, so that tests can advance it by hand. */
import { linkAbort } from "../../lib/abort.js";

export interface Clock {
  /** Milliseconds since 1970. May step forward and back, as when a virtual machine goes on after a pause. */
  now(): number;
  /** Milliseconds from a moment in the past, without steps: for how long something takes. */
  uptime(): number;
  /** Calls back once, unless the result is called before. */
  after(milliseconds: number, callback: () => void): () => void;
}

/** Node.js calls back at once for a longer time. */
const longestTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  uptime: () => performance.now(),
  after: (milliseconds, callback) => {
    const timer = setTimeout(callback, Math.min(Math.max(0, milliseconds), longestTimerMs));
    return () => clearTimeout(timer);
  },
};

/** Ends early, without an error, when `signal` aborts. */
export async function pause(milliseconds: number, clock: Clock, signal: AbortSignal): Promise<void> {
  let finish = (): void => undefined;
  const passed = new Promise<void>((resolve) => (finish = resolve));
  const cancel = clock.after(milliseconds, finish);
  using _ = linkAbort(signal, finish);
  await passed;
  cancel();
}
