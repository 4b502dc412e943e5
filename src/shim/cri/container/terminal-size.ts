/** The size of a terminal follows its client's window. */
import { sleep } from "../../../lib/abort.js";
import { messageOf } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import { Backoff } from "../../../lib/sync/backoff.js";
import type { TerminalSize } from "../../ports/streaming.js";

/** The engine refuses a size while it starts the process. After so many attempts it has another reason. */
const attempts = 10;
const pauseMs = { first: 20, longest: 1_000 };

export interface TerminalSizeOptions {
  readonly sizes: AsyncIterable<TerminalSize>;
  readonly apply: (size: TerminalSize, signal: AbortSignal) => Promise<void>;
  readonly log: Pick<Logger, "debug">;
}

/**
 * Applies each size in order and skips a size when there is a newer one, until `sizes` ends or `signal`
 * aborts. Retries a refused size, unless there is a newer one. A failure does not end the session. Never
 * throws.
 */
export async function followTerminalSize(options: TerminalSizeOptions, signal: AbortSignal): Promise<void> {
  const { sizes, log } = options;
  const waiting: { size: TerminalSize | undefined } = { size: undefined };
  let applying: Promise<void> | undefined;
  const applyAll = async (): Promise<void> => {
    for (let { size } = waiting; size !== undefined; size = waiting.size) {
      waiting.size = undefined;
      await applySize(size, options, () => waiting.size !== undefined, signal);
    }
    applying = undefined;
  };
  try {
    for await (const size of sizes) {
      if (signal.aborted) break;
      waiting.size = size;
      applying ??= applyAll();
    }
    await applying;
  } catch (error) {
    log.debug({ err: messageOf(error) }, "cannot follow the size of the terminal");
  }
}

async function applySize(
  size: TerminalSize,
  { apply, log }: TerminalSizeOptions,
  isOvertaken: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  const backoff = new Backoff(pauseMs);
  for (let attempt = 1; !signal.aborted; attempt++) {
    try {
      await apply(size, signal);
      return;
    } catch (error) {
      if (isOvertaken()) return;
      if (attempt === attempts) {
        log.debug({ ...size, err: messageOf(error) }, "cannot resize the terminal");
        return;
      }
    }
    await sleep(backoff.next(), signal).catch(() => undefined); // An abort ends the loop.
  }
}
