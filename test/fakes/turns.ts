import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";

/** Lets `count` turns of the event loop pass. */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await nextTurn();
}

/** A promise and what fulfils it, as Promise.withResolvers() of Node.js 22. */
export function withResolvers<T = void>(): {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
} {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((fulfil) => (resolve = fulfil));
  return { promise, resolve };
}

const timeoutMs = 10_000;

/** Waits until `condition` holds: a few turns of the event loop, mostly. Throws when it never does. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const end = Date.now() + timeoutMs;
  for (let turn = 0; !condition(); turn += 1) {
    if (Date.now() > end) throw new Error(`gave up waiting until ${what}`);
    await (turn < 100 ? nextTurn() : pause(1));
  }
}
