import { orAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { noteWait } from "../../lib/waits.js";

/** One refresh. */
interface Turn {
  /** Assigned right after the turn was created. */
  done: Promise<void>;
  readonly stop: AbortController;
  phase: "queued" | "running" | "ended";
  /** Waiting callers that gave a signal. */
  waiting: number;
  /** A caller without a signal waits for it. */
  isRequired: boolean;
}

interface Queue {
  readonly running: Turn;
  /** Begins when `running` has ended. */
  next: Turn | undefined;
}

/**
 * Refreshes of one id never overlap, and a trigger during a refresh causes one more afterwards. So the
 * inspect that started last also ends last, and the newest answer wins.
 */
export class Refresher {
  readonly #queues = new Map<string, Queue>();

  /** `work` inspects one id and stores the result; it has its own deadline, ends with its signal, and may throw. */
  constructor(private readonly work: (id: string, signal: AbortSignal) => Promise<void>) {}

  /**
   * Resolves when a refresh that began after this call has ended; throws its error. An abort of `signal` ends
   * the wait; when all callers have left, the refresh is cancelled, or never begins.
   */
  async refresh(id: string, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const turn = this.#join(id);
    if (signal === undefined) {
      turn.isRequired = true;
      return turn.done;
    }
    turn.waiting += 1;
    using _noted = noteWait(signal, { action: `the state of container ${id}`, inner: turn.stop.signal });
    try {
      await orAbort(turn.done, signal);
    } finally {
      turn.waiting -= 1;
      if (turn.phase === "running" && isAbandoned(turn)) turn.stop.abort(abandonedError());
    }
  }

  /** Whether a refresh of the id is running or queued. */
  has(id: string): boolean {
    return this.#queues.has(id);
  }

  /** Ends all running refreshes. */
  abort(reason: ShimError): void {
    for (const { running } of this.#queues.values()) running.stop.abort(reason);
  }

  #join(id: string): Turn {
    const queue = this.#queues.get(id);
    if (queue?.next !== undefined) return queue.next;
    const turn: Turn = {
      done: Promise.resolve(),
      stop: new AbortController(),
      phase: "queued",
      waiting: 0,
      isRequired: false,
    };
    if (queue === undefined) {
      turn.done = this.#run(id, turn);
    } else {
      queue.next = turn;
      turn.done = queue.running.done
        .catch(() => undefined)
        .then(() => {
          if (!isAbandoned(turn)) return this.#run(id, turn);
          this.#queues.delete(id);
          throw abandonedError();
        });
    }
    turn.done.catch(() => undefined); // The callers throw it.
    return turn;
  }

  async #run(id: string, turn: Turn): Promise<void> {
    const queue: Queue = { running: turn, next: undefined };
    this.#queues.set(id, queue);
    turn.phase = "running";
    try {
      await this.work(id, turn.stop.signal);
    } finally {
      turn.phase = "ended";
      // A queued refresh replaces the queue by its own when it begins.
      if (this.#queues.get(id) === queue && queue.next === undefined) this.#queues.delete(id);
    }
  }
}

function isAbandoned({ waiting, isRequired }: Turn): boolean {
  return waiting === 0 && !isRequired;
}

function abandonedError(): ShimError {
  return new ShimError("cancelled", "all callers left");
}
