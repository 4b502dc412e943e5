import { orAbort } from "../../src/lib/abort.js";
import type { EngineEvent } from "../../src/shim/ports/engine.js";
import { turns } from "./turns.js";

interface Subscription {
  readonly queue: EngineEvent[];
  /** The event as this subscription has it, if it has it. */
  readonly told: (event: EngineEvent) => EngineEvent | undefined;
  wake: () => void;
  broken: Error | undefined;
}

/** Event streams that are late, doubled or lossy, as a test wants them. */
export class FakeEvents {
  /**
   * For each event the delays, in turns of the event loop, after which it is delivered: `[]` loses it, `[0,
   * 3]` doubles it.
   */
  policy: (event: EngineEvent) => readonly number[] = () => [0];
  readonly #subscriptions = new Set<Subscription>();

  get subscribers(): number {
    return this.#subscriptions.size;
  }

  /** Delivers to those who are subscribed at the time of delivery. */
  emit(event: EngineEvent, labels: Readonly<Record<string, string>> = {}): void {
    for (const delay of this.policy(event)) {
      void turns(delay + 1).then(() => this.#deliver(event, labels));
    }
  }

  /** All streams break. */
  breakAll(error: Error): void {
    for (const subscription of this.#subscriptions) {
      subscription.broken = error;
      subscription.wake();
    }
  }

  async *subscribe(
    labelKey: string,
    signal: AbortSignal,
    onOpen: () => void,
  ): AsyncGenerator<EngineEvent, void> {
    const subscription: Subscription = {
      queue: [],
      told: (event) => {
        if (event.type !== "container" || this.#hasLabel(event, labelKey)) return event;
        const isTold = event.action === "create" || event.action === "destroy";
        return isTold ? { ...event, type: "otherContainer" } : undefined;
      },
      wake: () => undefined,
      broken: undefined,
    };
    this.#subscriptions.add(subscription);
    try {
      onOpen();
      for (;;) {
        const event = subscription.queue.shift();
        if (event !== undefined) yield event;
        else if (subscription.broken !== undefined) throw subscription.broken;
        else await orAbort(new Promise<void>((wake) => (subscription.wake = wake)), signal);
      }
    } finally {
      this.#subscriptions.delete(subscription);
    }
  }

  readonly #labels = new WeakMap<EngineEvent, Readonly<Record<string, string>>>();

  #hasLabel(event: EngineEvent, labelKey: string): boolean {
    return this.#labels.get(event)?.[labelKey] !== undefined;
  }

  #deliver(event: EngineEvent, labels: Readonly<Record<string, string>>): void {
    this.#labels.set(event, labels);
    for (const subscription of this.#subscriptions) {
      const told = subscription.told(event);
      if (told === undefined) continue;
      subscription.queue.push(told);
      subscription.wake();
    }
  }
}
