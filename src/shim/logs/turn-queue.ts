/** Shares the disk and the memory among many logs: a few at a time, each for one chunk, then the next. */

/** Memory of equal size for what one turn reads and writes. */
export interface TurnBuffers {
  readonly input: Buffer;
  readonly output: Buffer;
}

/** One chunk of work; true when there is more to do at once. After an error it is not called again. */
export type Turn = (buffers: TurnBuffers) => Promise<boolean>;

const chunkBytes = 256 * 1024;
/** Buffers are kept during pauses between lines: allocating them again for each line would cost more. */
const keptMs = 10_000;
/** One wake-up of the process serves all logs with output in this time. */
const soonMs = 100;

export class TurnQueue {
  readonly #waiting: Turn[] = [];
  #free: TurnBuffers[] = [];
  #release: NodeJS.Timeout | undefined;
  #running = 0;
  #soon: Turn[] = [];

  constructor(
    private readonly onError: (error: unknown) => void,
    private readonly width = 4,
  ) {}

  /** As `add`, within 100 ms, together with all turns that were added by then. */
  addSoon(turn: Turn): void {
    this.#soon.push(turn);
    if (this.#soon.length > 1) return;
    setTimeout(() => {
      for (const one of this.#soon.splice(0)) this.add(one);
    }, soonMs);
  }

  /** Runs `turn` after those before it, and again at the end of the queue as long as it has more to do. */
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
          // A failing log must not stop the others, or the process.
          this.onError(error);
        }
      }
    } finally {
      this.#running -= 1;
      this.#free.push(buffers);
      this.#release ??= setTimeout(() => {
        this.#free = [];
        this.#release = undefined;
      }, keptMs).unref();
      this.#release.refresh();
    }
  }
}
