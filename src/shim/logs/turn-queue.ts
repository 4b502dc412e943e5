/** Takes care that many logs share the disk and the memory: a few at a time, each for one chunk, then the next. */

/** Memory for one turn: what is read, and what is written. Of equal size. */
export interface TurnBuffers {
  readonly input: Buffer;
  readonly output: Buffer;
}

/** One chunk of work; true when there is more to be done at once. One that throws is not done again. */
export type Turn = (buffers: TurnBuffers) => Promise<boolean>;

const chunkBytes = 256 * 1024;
/** Buffers outlive the pause between two lines: else each would be allocated, cleared up after, and allocated again. */
const keptMs = 10_000;
/** One wake-up of the process for all logs that something was written to meanwhile. */
const soonMs = 100;

export class TurnQueue {
  readonly #waiting: Turn[] = [];
  #free: TurnBuffers[] = [];
  #letGo: NodeJS.Timeout | undefined;
  #running = 0;
  #soon: Turn[] = [];

  constructor(
    private readonly onError: (error: unknown) => void,
    private readonly width = 4,
  ) {}

  /** As `add`, within 100 ms, together with all others that came by then. */
  addSoon(turn: Turn): void {
    this.#soon.push(turn);
    if (this.#soon.length > 1) return;
    setTimeout(() => {
      for (const one of this.#soon.splice(0)) this.add(one);
    }, soonMs);
  }

  /** Runs `turn` as soon as it is its turn, and again at the end of the queue as long as it has more to do. */
  add(turn: Turn): void {
    this.#waiting.push(turn);
    if (this.#running >= this.width) return;
    this.#running += 1;
    void this.#work();
  }

  async #work(): Promise<void> {
    const buffers = this.#free.pop() ?? {
      input: Buffer.allocUnsafeSlow(chunkBytes),
      output: Buffer.allocUnsafeSlow(chunkBytes),
    };
    try {
      for (let turn = this.#waiting.shift(); turn !== undefined; turn = this.#waiting.shift()) {
        try {
          if (await turn(buffers)) this.#waiting.push(turn);
        } catch (error) {
          // One log must not end the others, or the process.
          this.onError(error);
        }
      }
    } finally {
      this.#running -= 1;
      this.#free.push(buffers);
      this.#letGo ??= setTimeout(() => {
        this.#free = [];
        this.#letGo = undefined;
      }, keptMs).unref();
      this.#letGo.refresh();
    }
  }
}
