import { ShimError } from "../../src/lib/errors.js";

/** One record of what all fakes of a test were asked for, in order, and the place where their faults are planned. */

export interface Step {
  /** `engine`, `host`, `network`, `checkpoints`, `records` … */
  readonly port: string;
  readonly verb: string;
  readonly args: readonly unknown[];
}

export class Journal {
  readonly steps: Step[] = [];
  /** Called when a step has succeeded, before its caller hears of it. */
  afterStep: ((step: Step) => void) | undefined;
  readonly #faults = new Map<string, Error[]>();

  /** The next call of `name` (`engine.startContainer`) fails without doing anything. */
  failNext(name: string, error: Error): void {
    this.#faults.set(name, [...(this.#faults.get(name) ?? []), error]);
  }

  /** Notes a call; throws the fault that is planned for it. */
  enter(port: string, verb: string, args: readonly unknown[]): Step {
    const step = { port, verb, args };
    this.steps.push(step);
    const name = nameOf(step);
    const [fault, ...rest] = this.#faults.get(name) ?? [];
    this.#faults.set(name, rest);
    if (fault !== undefined) throw fault;
    return step;
  }

  leave(step: Step): void {
    this.afterStep?.(step);
  }

  /** A call that is noted and done one turn later; throws what its signal was aborted with, and the planned fault. */
  async do<T>(
    port: string,
    verb: string,
    args: readonly unknown[],
    work: () => T,
    signal?: AbortSignal,
  ): Promise<T> {
    await Promise.resolve();
    if (signal?.aborted === true) throw ShimError.from(signal.reason);
    const step = this.enter(port, verb, args);
    const result = work();
    this.leave(step);
    return result;
  }

  /** `port.verb` of all steps, of one port or verb when `only` names some. */
  names(...only: readonly string[]): readonly string[] {
    return this.steps.map(nameOf).filter((name) => only.length === 0 || only.includes(name));
  }

  /** Arguments of all calls of `name`. */
  argsOf(name: string): readonly (readonly unknown[])[] {
    return this.steps.filter((step) => nameOf(step) === name).map((step) => step.args);
  }

  clear(): void {
    this.steps.length = 0;
  }
}

export function nameOf(step: Step): string {
  return `${step.port}.${step.verb}`;
}
