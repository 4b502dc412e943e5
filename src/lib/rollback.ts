import type { Logger } from "./log.js";
import { withDeadline } from "./abort.js";
import { messageOf } from "./errors.js";
import { noteWait } from "./waits.js";

/**
 * Undo steps of a multi-step action, used as
 *
 *     await using rollback = new Rollback(log, 30_000);
 *     const id = await engine.createContainer(…);
 *     rollback.defer("remove container", (signal) => engine.removeContainer(id, { force: true }, signal));
 *     …
 *     rollback.commit();
 *
 * Without `commit` all steps run in reverse order, each under a fresh deadline of its own, because the
 * caller's is often what ended the action. A failing undo is logged and never replaces the first error.
 */
export class Rollback implements AsyncDisposable {
  #steps: { readonly name: string; readonly undo: (signal: AbortSignal) => Promise<unknown> }[] = [];

  constructor(
    private readonly log: Pick<Logger, "debug" | "error">,
    private readonly stepTimeoutMs: number,
    /** Of the caller, which waits for the undo also when its signal has aborted. */
    private readonly caller?: AbortSignal,
  ) {}

  /** Registers the undo of the step that has just succeeded (or may have). */
  defer(name: string, undo: (signal: AbortSignal) => Promise<unknown>): void {
    this.#steps.push({ name, undo });
  }

  /** Whether there is nothing to undo. */
  get isEmpty(): boolean {
    return this.#steps.length === 0;
  }

  /** The action succeeded: nothing will be undone. */
  commit(): void {
    this.#steps = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      const { name, undo } = step;
      try {
        await withDeadline(undefined, this.stepTimeoutMs, name, async (own) => {
          using _noted = this.caller && noteWait(this.caller, { action: `undo: ${name}`, inner: own });
          await undo(own);
        });
        this.log.debug({ step: name }, "undone");
      } catch (error) {
        this.log.error({ step: name, err: messageOf(error) }, "undo failed");
      }
    }
  }
}
