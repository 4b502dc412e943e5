import { messageOf } from "./errors.js";
import type { Logger } from "./log.js";

/**
 * What a program has opened, in order, with how each is closed. Closing goes backwards; a step that fails is logged and
 * does not keep the others from closing.
 */
export class Lifetime {
  readonly #steps: { readonly name: string; readonly close: () => Promise<unknown> }[] = [];

  constructor(private readonly log: Pick<Logger, "error">) {}

  onClose(name: string, close: () => Promise<unknown>): void {
    this.#steps.push({ name, close });
  }

  async close(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step.close();
      } catch (error) {
        this.log.error({ step: step.name, err: messageOf(error) }, "cannot close");
      }
    }
  }
}
