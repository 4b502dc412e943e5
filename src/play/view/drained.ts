/** Waits for the reader of an output, so that what a container writes does not pile up in memory. */
import { Writable } from "node:stream";
import { linkAbort } from "../../lib/abort.js";

/** Resolves when `output` takes more, when it has ended, when it is not a stream, and when `signal` aborts. */
export async function drained(output: object, signal: AbortSignal): Promise<void> {
  if (!(output instanceof Writable) || !output.writableNeedDrain || signal.aborted) return;
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => (resolve = done));
  const ends = ["drain", "close", "error"] as const;
  for (const end of ends) output.once(end, resolve);
  using _ = linkAbort(signal, resolve);
  await promise;
  for (const end of ends) output.off(end, resolve);
}
