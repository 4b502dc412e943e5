/**
 * What work waits for at this moment, for messages about deadlines and slow calls: a tree along the abort signals that
 * end the waits. A wait is noted under the signal of its caller, and names the signal of the work that it waits for.
 */

export interface Wait {
  /** As in `start container "x"`. Called only for a message; `depth` is for `describeWaits` within it. */
  readonly what: (depth: number) => string;
  /** Of the work that is waited for, if it has one of its own. */
  readonly inner?: AbortSignal | undefined;
}

type NotedWait = Wait & { readonly sinceMs: number };

/** By signal, and gone with it. */
const waits = new WeakMap<AbortSignal, Set<NotedWait>>();
/** A call waits for one thing, or for a few side by side. */
const shownWaits = 3;
/** A message has one line, and holders of locks may wait for each other's work. */
const deepest = 8;

/** The wait lasts until it is disposed of. */
export function noteWait(signal: AbortSignal, { what, inner }: Wait): Disposable {
  const noted = { what, inner, sinceMs: performance.now() };
  const known = waits.get(signal);
  if (known === undefined) waits.set(signal, new Set([noted]));
  else known.add(noted);
  return {
    [Symbol.dispose]: () => {
      waits.get(signal)?.delete(noted);
    },
  };
}

/** The innermost waits below `signal` with their ages, as `start container "x" (31 s)`; none without a wait. */
export function describeWaits(signal: AbortSignal, depth = 0): readonly string[] {
  if (depth >= deepest) return [];
  const nowMs = performance.now();
  // Each gives one description at least. All of them, of each level, may be more than there is time for.
  const first = [...(waits.get(signal) ?? [])].slice(0, shownWaits);
  const found = first.flatMap(({ what, inner, sinceMs }) => {
    const below = inner === undefined ? [] : describeWaits(inner, depth + 1);
    return below.length > 0 ? below : [`${what(depth + 1)} (${formatAge(nowMs - sinceMs)})`];
  });
  return found.slice(0, shownWaits);
}

/** For the end of a message; empty without a wait. */
export function waitedFor(descriptions: readonly string[]): string {
  return descriptions.length === 0 ? "" : `; it waited for: ${descriptions.join(", ")}`;
}

/** `120 ms`, `31 s`. */
export function formatAge(milliseconds: number): string {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${Math.floor(milliseconds / 1000)} s`;
}
