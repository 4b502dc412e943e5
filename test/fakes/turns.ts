import { setImmediate as nextTurn } from "node:timers/promises";

/** Lets `count` turns of the event loop pass. */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await nextTurn();
}

/** Waits, by turns of the event loop, until `condition` holds. Throws when it never does. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < 20_000; turn += 1) {
    if (condition()) return;
    await nextTurn();
  }
  throw new Error(`gave up waiting until ${what}`);
}
