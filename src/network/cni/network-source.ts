/** Where network lists come from. */
import { CoalescedWork } from "../../lib/sync/coalesced-work.js";
import { systemClock, type Clock } from "../../lib/time.js";
import type { NetworkList } from "../libcni/configuration.js";

/** Has exactly one of the two. */
export type NetworkState =
  | { readonly network: NetworkList; readonly problem?: undefined }
  | { readonly network?: undefined; readonly problem: string };

/** Where the network list comes from: a directory that administrators write to, or the program itself. */
export interface NetworkSource {
  /** Resolves when the first state is known, whatever it is. */
  start(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
  /** The list for new pods. */
  state(): NetworkState;
  /** The last valid list, to tear down pods without a cached one. */
  lastGood(): NetworkList | undefined;
  /** Facts for verbose Status. */
  describe(): Readonly<Record<string, unknown>>;
}

const pollMs = 5000;

/** A source that looks for its list again and again, because plugins are installed and removed. */
export abstract class RefreshedSource implements NetworkSource {
  protected readonly clock: Clock;
  protected isStopped = true;
  #lastGood: NetworkList | undefined;
  readonly #looks = new CoalescedWork<void>(() => this.look());
  #cancelPoll: () => void = () => undefined;

  constructor(
    private current: NetworkState,
    { clock = systemClock }: { readonly clock?: Clock },
  ) {
    this.clock = clock;
  }

  /** Finds the list now, and gives it to `become`. Never throws: a failure becomes the state. */
  protected abstract look(): Promise<void>;
  abstract describe(): Readonly<Record<string, unknown>>;

  async start(): Promise<void> {
    this.isStopped = false;
    await this.refresh();
    this.#poll();
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    this.#cancelPoll();
    await this.#looks.settled();
  }

  state(): NetworkState {
    return this.current;
  }

  lastGood(): NetworkList | undefined {
    return this.#lastGood;
  }

  /** Looks now. Calls during a look share the next one. */
  async refresh(): Promise<void> {
    this.#looks.request();
    await this.#looks.settled();
  }

  protected become(state: NetworkState): void {
    this.current = state;
    this.#lastGood = state.network ?? this.#lastGood;
  }

  #poll(): void {
    if (this.isStopped) return;
    this.#cancelPoll = this.clock.after(pollMs, () => void this.refresh().then(() => this.#poll()));
  }
}
