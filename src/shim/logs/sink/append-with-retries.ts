/** Appends lines that cannot be read again, however long the disk is full. */
import { sleep } from "../../lib/abort.js";
import type { Lock, LogOutput } from "./log-output.js";

const retryMs = 1_000;

/** Tries `write` again until it says that the disk has taken it. Throws the reason of `signal` when that aborts first. */
export async function retryUntilTaken(write: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await write())) await sleep(retryMs, signal);
}

/**
 * Appends all of `lines`, in `lock`, and tells `onAppended` of each part that is in the file. Waits while the disk does
 * not take them, so whoever produces them waits too. Throws the reason of `signal` when that aborts first.
 */
export async function appendPatiently(
  lines: Buffer,
  {
    output,
    lock,
    onAppended,
  }: {
    readonly output: LogOutput;
    readonly lock: Lock;
    readonly onAppended: (part: Buffer) => Promise<void>;
  },
  signal: AbortSignal,
): Promise<void> {
  let rest = lines;
  while (rest.length > 0) {
    const done = await lock.run(async () => {
      signal.throwIfAborted();
      const { bytes } = await output.append(rest);
      if (bytes > 0) await onAppended(rest.subarray(0, bytes));
      return bytes;
    });
    rest = rest.subarray(done);
    if (rest.length > 0) await sleep(retryMs, signal);
  }
}
