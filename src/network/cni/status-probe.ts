/** The answer to the last STATUS command, kept in memory. */
import { withDeadline } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import { systemClock, type Clock } from "../../lib/time.js";
import type { NetworkList } from "../libcni/configuration.js";
import type { NetworkListRunner } from "../libcni/network-list-runner.js";
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
  readonly #questions = new SingleFlight<void>();
  /** The list of the latest question: the configuration may change before an answer is there. */
  #latest: string | undefined;
  readonly #stopping = new AbortController();

  constructor(
    private readonly runner: NetworkListRunner,
    private readonly clock: Clock = systemClock,
  ) {}

  /** The last error of STATUS, renewed in the background after 10 s; none below version 1.1.0. */
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

  /** Asks now; calls about the same list share one question. Never throws. */
  async ask(list: NetworkList): Promise<void> {
    this.#latest = list.text;
    const { signal } = this.#stopping;
    await this.#questions.run(list.text, signal, (shared) => this.#ask(list, shared)).catch(() => undefined);
  }

  async #ask(list: NetworkList, signal: AbortSignal): Promise<void> {
    let problem: string | undefined;
    try {
      await withDeadline(signal, timeoutMs, "ask for the status", (own) => this.runner.status(list, own));
    } catch (error) {
      problem = messageOf(error);
    }
    if (this.#latest === list.text) this.#answer = { text: list.text, at: this.clock.now(), problem };
  }
}
