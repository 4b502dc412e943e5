/** Requests whose answer was lost: the engine may have executed them, or may execute them later. */
import { sleep, withDeadline } from "../../lib/abort.js";
import { Backoff } from "../../lib/sync/backoff.js";
import { isKind, messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";

/** How long the effect of an abandoned request may take to appear. */
export const appearanceMs = 5_000;
const pollMs = { first: 25, longest: 800 };

/** Whether the engine may execute a request that failed with `error`, or has executed it. */
export function mayHaveHappened(error: unknown, signal: AbortSignal): boolean {
  return (
    signal.aborted ||
    isKind(error, "timeout") ||
    (isKind(error, "unavailable", "unknown") && error.fields["answer"] === "lost")
  );
}

/** Repeats `look` until it returns a value, for `limitMs`. Throws its errors, and the reason of `signal`. */
export async function untilAppears<T>(
  look: (signal: AbortSignal) => Promise<T | undefined>,
  signal: AbortSignal,
  limitMs = appearanceMs,
): Promise<T | undefined> {
  const deadlineAt = performance.now() + limitMs;
  const backoff = new Backoff(pollMs);
  for (;;) {
    const seen = await look(signal);
    if (seen !== undefined || performance.now() >= deadlineAt) return seen;
    await sleep(backoff.next(), signal);
  }
}

export interface LostCreate {
  readonly name: string;
  readonly isOurs: (container: Snapshot) => boolean;
  /** Milliseconds for all of it. */
  readonly timeoutMs: number;
}

/** Looks for the container of a create whose answer was lost, and removes it. Never throws: failures are logged. */
export async function removeLostCreate(
  { name, isOurs, timeoutMs }: LostCreate,
  deps: {
    readonly engine: Pick<Engine, "inspectContainer" | "removeContainer">;
    readonly log: Pick<Logger, "error">;
  },
): Promise<void> {
  const { engine, log } = deps;
  try {
    await withDeadline(undefined, timeoutMs, `look for container "${name}"`, async (signal) => {
      const found = await untilAppears((limited) => engine.inspectContainer(name, limited), signal);
      if (found !== undefined && isOurs(found))
        await engine.removeContainer(found.id, { force: true }, signal);
    });
  } catch (error) {
    log.error({ name, err: messageOf(error) }, "cannot remove the container of an abandoned create");
  }
}
