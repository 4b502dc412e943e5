/** Patience that ends, with work that goes on. */
import { sleep } from "../lib/abort.js";

/** Whether `work` ended in time; its error is thrown. */
export async function within(milliseconds: number, work: Promise<unknown>): Promise<boolean> {
  const patience = new AbortController();
  const tooLate = sleep(milliseconds, patience.signal).then(
    () => false,
    () => false,
  );
  try {
    return await Promise.race([work.then(() => true), tooLate]);
  } finally {
    patience.abort();
  }
}
