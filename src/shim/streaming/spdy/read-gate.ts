/** Pauses a connection for as long as there is any reason to. */

/** What is paused. */
export interface Pausable {
  pause(): unknown;
  resume(): unknown;
}

export class ReadGate {
  readonly #transport: Pausable;
  readonly #probeMs: number;
  readonly #probe: () => void;
  readonly #reasons = new Set<unknown>();
  #timer: NodeJS.Timeout | undefined;
  #disposed = false;

  /**
   * `probe` is called at that interval while the gate is closed. Who does not read does not see either that the peer is
   * gone: only something written finds it out.
   */
  constructor(transport: Pausable, probeMs: number, probe: () => void) {
    this.#transport = transport;
    this.#probeMs = probeMs;
    this.#probe = probe;
  }

  close(reason: unknown): void {
    if (this.#disposed) return;
    this.#reasons.add(reason);
    if (this.#timer !== undefined) return;
    this.#transport.pause();
    this.#timer = setInterval(this.#probe, this.#probeMs);
    this.#timer.unref();
  }

  /** Takes the reason back. With the last one, the transport flows again. */
  open(reason: unknown): void {
    if (!this.#reasons.delete(reason) || this.#reasons.size > 0) return;
    this.#stopProbing();
    this.#transport.resume();
  }

  /** No reason counts any more, and nothing is probed. */
  dispose(): void {
    this.#disposed = true;
    this.#reasons.clear();
    this.#stopProbing();
  }

  #stopProbing(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
