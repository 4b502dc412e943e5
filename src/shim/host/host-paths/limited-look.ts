import { orAbort, withDeadline } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";

/**
 * Looks at files that hang when their file system does. Nobody waits for longer than the limit, and as long as one look
 * hangs there is no second one: each of them holds a thread of Node's pool.
 */
export class LimitedLook {
  #isUnderWay = false;

  constructor(
    /** For errors, as `look for the engine's processes`. */
    private readonly action: string,
    private readonly limitMs: number,
  ) {}

  /** What `look` answers. `timeout` after the limit, `unavailable` while an earlier one hangs; else the signal's reason. */
  async run<T>(signal: AbortSignal | undefined, look: () => Promise<T>): Promise<T> {
    if (this.#isUnderWay) {
      throw new ShimError("unavailable", `${this.action}: an earlier look has not ended`);
    }
    return withDeadline(signal, this.limitMs, this.action, (linked) => {
      this.#isUnderWay = true;
      const looking = look().finally(() => {
        this.#isUnderWay = false;
      });
      looking.catch(() => undefined); // One that fails after everybody has left.
      return orAbort(looking, linked);
    });
  }
}
