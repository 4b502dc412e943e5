/** Counts what a piece of code flushes to the disk. */
import { open } from "node:fs/promises";
import { mock } from "node:test";

/** Flushes of files and directories while `work` ran; nothing else may run beside it. */
export async function countFlushes(work: () => Promise<unknown>): Promise<number> {
  const handle = await open("/");
  const prototype = Object.getPrototypeOf(handle) as typeof handle;
  await handle.close();
  // What it stands before is called with its own `this`.
  const sync = mock.method(prototype, "sync");
  try {
    await work();
    return sync.mock.callCount();
  } finally {
    sync.mock.restore();
  }
}
