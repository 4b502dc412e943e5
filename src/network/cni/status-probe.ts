/** The STATUS command, as an answer that is always at hand. */
import { withDeadline } from "../../shim/lib/abort.js";
import { messageOf } from "../../shim/lib/errors.js";
import { systemClock, type Clock } from "../../shim/lib/time.js";
import type { NetworkList } from "../libcni/configuration.js";
import type { NetworkEngine } from "../libcni/network-engine.js";
import { isAtLeast } from "../libcni/versions.js";

const freshMs = 10_000;
const timeoutMs = 5000;

interface Answer {
  readonly text: string;
  readonly at: number;
  readonly problem: string | undefined;
}

export class StatusProbe {
  #answer: Answer | undefined;
  /** The latest question that is not answered yet. */
  #asking: { readonly text: string; readonly done: Promise<void> } | undefined;
  readonly #stopping = new AbortController();

  constructor(
    private readonly engine: NetworkEngine,
    private readonly clock: Clock = systemClock,
  ) {}

  /**
   * What the plugins of the list last had to complain about. An answer older than 10 s is renewed in the background;
   * while there is none, there is no complaint. Lists below version 1.1.0 have no such command.
   */
  problemOf(list: NetworkList): string | undefined {
    if (!isAtLeast(list.cniVersion, "1.1.0")) return undefined;
    const answer = this.#answer?.text === list.text ? this.#answer : undefined;
    if (answer === undefined || this.clock.now() - answer.at >= freshMs) void this.ask(list);
    return answer?.problem;
  }

  /** Ends the plugins that are being asked. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Asks now, or joins those who are asking about the same list. Never throws. */
  ask(list: NetworkList): Promise<void> {
    if (this.#asking?.text === list.text) return this.#asking.done;
    const asking = {
      text: list.text,
      done: this.#ask(list).finally(() => {
        if (this.#asking === asking) this.#asking = undefined;
      }),
    };
    this.#asking = asking;
    return asking.done;
  }

  async #ask(list: NetworkList): Promise<void> {
    let problem: string | undefined;
    try {
      await withDeadline(this.#stopping.signal, timeoutMs, "ask for the status", (signal) =>
        this.engine.status(list, signal),
      );
    } catch (error) {
      problem = messageOf(error);
    }
    // The configuration may have changed meanwhile, and the answer about the new one be there already.
    if (this.#asking?.text === list.text) this.#answer = { text: list.text, at: this.clock.now(), problem };
  }
}
