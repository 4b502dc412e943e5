import { orAbort } from "../lib/abort.js";
import { ShimError } from "../lib/errors.js";

/** One refresh, queued, under way or ended. */
interface Turn {
  /** Assigned as soon as the turn is under its lock. */
  done: Promise<void>;
  readonly stop: AbortController;
  phase: "queued" | "running" | "ended";
  /** Callers that may leave, and have not. */
  waiting: number;
  /** Somebody wants it who cannot leave. */
  isWanted: boolean;
}

interface Lock {
  readonly running: Turn;
  /** The one that begins when `running` has ended. */
  next: Turn | undefined;
}

/**
 * Refreshes of one id never overlap, and a trigger during a refresh makes one more afterwards. So the inspect that
 * started last also ends last, and the newest answer wins without versions, locks or merging.
 */
export class Refresher {
  readonly #locks = new Map<string, Lock>();

  /** `work` inspects one id and stores what it finds; it has its own deadline, ends with its signal, and may throw. */
  constructor(private readonly work: (id: string, signal: AbortSignal) => Promise<void>) {}

  /**
   * Resolves when a refresh that began after this call has ended; throws what that refresh threw. Who gives a signal may
   * leave; a refresh that nobody waits for any longer ends, or never begins.
   */
  async refresh(id: string, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const turn = this.#join(id);
    if (signal === undefined) {
      turn.isWanted = true;
      return turn.done;
    }
    turn.waiting += 1;
    try {
      await orAbort(turn.done, signal);
    } finally {
      turn.waiting -= 1;
      if (turn.phase === "running" && isDeserted(turn)) turn.stop.abort(deserted());
    }
  }

  /** Ends all refreshes that are under way. */
  abort(reason: ShimError): void {
    for (const { running } of this.#locks.values()) running.stop.abort(reason);
  }

  #join(id: string): Turn {
    const lock = this.#locks.get(id);
    if (lock?.next !== undefined) return lock.next;
    const turn: Turn = {
      done: Promise.resolve(),
      stop: new AbortController(),
      phase: "queued",
      waiting: 0,
      isWanted: false,
    };
    if (lock === undefined) {
      turn.done = this.#run(id, turn);
    } else {
      lock.next = turn;
      turn.done = lock.running.done
        .catch(() => undefined)
        .then(() => {
          if (!isDeserted(turn)) return this.#run(id, turn);
          this.#locks.delete(id);
          throw deserted();
        });
    }
    turn.done.catch(() => undefined); // Heard by those who wait for it.
    return turn;
  }

  async #run(id: string, turn: Turn): Promise<void> {
    const lock: Lock = { running: turn, next: undefined };
    this.#locks.set(id, lock);
    turn.phase = "running";
    try {
      await this.work(id, turn.stop.signal);
    } finally {
      turn.phase = "ended";
      // A queued refresh replaces the lock by its own when it begins.
      if (this.#locks.get(id) === lock && lock.next === undefined) this.#locks.delete(id);
    }
  }
}

function isDeserted({ waiting, isWanted }: Turn): boolean {
  return waiting === 0 && !isWanted;
}

function deserted(): ShimError {
  return new ShimError("cancelled", "nobody waits for it any longer");
}
