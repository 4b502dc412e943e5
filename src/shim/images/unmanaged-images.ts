import { withDeadline } from "../lib/abort.js";
import { isKind, messageOf } from "../lib/errors.js";
import type { Logger } from "../lib/log.js";
import { SingleFlight } from "../lib/sync/single-flight.js";
import { mayInheritPodType, typeLabel } from "../domain/labels.js";
import { listedName, type ListedContainer } from "../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";

/** Limit of one list, whose callers share it. */
const listTimeoutMs = 5_000;
/** For so long after a list that failed, none is tried: it must not hold up every ListImages and ImageStatus. */
const retryMs = 30_000;
/** A list is believed for so long without an event, since the engine drops events for a slow reader. */
const freshMs = 10 * 60_000;

export interface UnmanagedImagesDeps {
  readonly engine: Pick<Engine, "listContainers">;
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number;
  readonly log: Pick<Logger, "warn">;
}

interface Known {
  readonly ids: ReadonlySet<string>;
  /** Of `forget` calls before the list was asked for. */
  readonly generation: number;
  readonly readAtMs: number;
}

/**
 * Ids of the images that containers outside of pods are made of, running or not. The read model has no such containers,
 * so the engine's whole list is asked for, but only after one of them was created or removed.
 */
export class UnmanagedImages {
  readonly #flights = new SingleFlight<ReadonlySet<string>>();
  #generation = 0;
  #known: Known = { ids: new Set(), generation: -1, readAtMs: 0 };
  /** No list is tried before. */
  #retryAtMs = -Infinity;
  #isFailing = false;

  constructor(private readonly deps: UnmanagedImagesDeps) {}

  /**
   * What was known last when the engine does not answer: it is about garbage collection, and an image that a container uses
   * cannot be removed anyway. Throws only the caller's abort.
   */
  async ids(signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { ids, generation, readAtMs } = this.#known;
    const nowMs = this.deps.now();
    const isFresh = generation === this.#generation && nowMs - readAtMs < freshMs;
    if (isFresh || nowMs < this.#retryAtMs) return ids;
    const asked = this.#generation;
    return this.#flights.run(String(asked), signal, (shared) => this.#read(asked, shared));
  }

  /** To be called when a container outside of pods was created or removed, and after each reconnect. */
  forget(): void {
    this.#generation += 1;
  }

  async #read(generation: number, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const readAtMs = this.deps.now();
    try {
      const listed = await withDeadline(signal, listTimeoutMs, "list containers", (limited) =>
        this.deps.engine.listContainers({}, limited),
      );
      const ids = new Set(listed.filter(isOutsideOfPods).map(({ imageId }) => imageId));
      // A later list may have ended earlier.
      if (this.#known.generation <= generation) this.#known = { ids, generation, readAtMs };
      this.#isFailing = false;
      return ids;
    } catch (error) {
      if (signal.aborted) throw error;
      // Whoever has no engine at all learns that from the question about the images themselves.
      if (!isKind(error, "unavailable")) this.#noteFailure(error);
      return this.#known.ids;
    }
  }

  /** Logged once, until a list succeeds. */
  #noteFailure(error: unknown): void {
    this.#retryAtMs = this.deps.now() + retryMs;
    if (!this.#isFailing) {
      this.deps.log.warn(
        { err: messageOf(error) },
        "containers outside of pods cannot be listed: their images may not be shown as pinned",
      );
    }
    this.#isFailing = true;
  }
}

/**
 * Those of dockershim, cri-dockerd and this program have the label, its helper containers too. One that an image gave the
 * label is none of them.
 */
function isOutsideOfPods(container: ListedContainer): boolean {
  const { labels } = container;
  return !Object.hasOwn(labels, typeLabel) || mayInheritPodType({ labels, name: listedName(container) });
}
