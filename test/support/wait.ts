/** Waits for conditions without an event. */
import { setTimeout as sleep } from "node:timers/promises";

/** Long enough for a machine that is busy with other things. */
const timeoutMs = 90_000;

/**
 * The first result of `look` that is not undefined or false; throws when the time is over, saying what was
 * waited for.
 */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  { everyMs = 50 }: { readonly everyMs?: number } = {},
): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const result = await look();
    if (result !== undefined && result !== false) return result;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await sleep(everyMs);
  }
}
