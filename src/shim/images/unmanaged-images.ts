import { withDeadline } from "../../lib/abort.js";
import { isKind, messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import { mayInheritPodType, typeLabel } from "../../domain/labels.js";
import { listedName, type ListedContainer } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";

/** Limit of one list, which concurrent callers share. */
const listTimeoutMs = 5_000;
/** Pause after a failed list, so that it does not delay every ListImages and ImageStatus. */
const retryMs = 30_000;
/** How long a list is valid without an event: the engine drops events for a slow reader. */
const freshMs = 10 * 60_000;

export interface UnmanagedImagesDeps {
  readonly engine: Pick<Engine, "listContainers">;
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number;
  readonly log: Pick<Logger, "warn">;
}

interface Known {
  readonly ids: ReadonlySet<string>;
  /** Number of `forget` calls before the list was requested. */
  readonly generation: number;
  readonly readAtMs: number;
}

/**
 * Ids of the images of unmanaged containers, which are not part of a pod, running or not. The read model does
 * not have them, so the engine's whole list is requested, but only after one of them was created or removed.
 */
export class UnmanagedImages {
  readonly #flights = new SingleFlight<ReadonlySet<string>>();
  #generation = 0;
  #known: Known = { ids: new Set(), generation: -1, readAtMs: 0 };
  /** Before this time no list is requested. */
  #retryAtMs = -Infinity;
  #isFailing = false;

  constructor(private readonly deps: UnmanagedImagesDeps) {}

  /**
   * The last known ids when the engine does not answer: they only save images from garbage collection, and
   * the engine removes no image that a container uses. Throws only the caller's abort.
   */
  async ids(signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { ids, generation, readAtMs } = this.#known;
    const nowMs = this.deps.now();
    const isFresh = generation === this.#generation && nowMs - readAtMs < freshMs;
    if (isFresh || nowMs < this.#retryAtMs) return ids;
    const generationNow = this.#generation;
    return this.#flights.run(String(generationNow), signal, (shared) => this.#read(generationNow, shared));
  }

  /** Called when an unmanaged container was created or removed, and after each reconnect. */
  forget(): void {
    this.#generation += 1;
  }

  async #read(generation: number, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const readAtMs = this.deps.now();
    try {
      const listed = await withDeadline(signal, listTimeoutMs, "list containers", (limited) =>
        this.deps.engine.listContainers({}, limited),
      );
      const ids = new Set(listed.filter(isUnmanaged).map(({ imageId }) => imageId));
      // A later list may have ended earlier.
      if (this.#known.generation <= generation) this.#known = { ids, generation, readAtMs };
      this.#isFailing = false;
      return ids;
    } catch (error) {
      if (signal.aborted) throw error;
      // Without an engine the caller's request for the images fails, too.
      if (!isKind(error, "unavailable")) this.#noteFailure(error);
      return this.#known.ids;
    }
  }

  /** Logs once, until a list succeeds. */
  #noteFailure(error: unknown): void {
    this.#retryAtMs = this.deps.now() + retryMs;
    if (!this.#isFailing) {
      this.deps.log.warn(
        { err: messageOf(error) },
        "cannot list unmanaged containers, their images may not be shown as pinned",
      );
    }
    this.#isFailing = true;
  }
}

/**
 * Containers of dockershim, cri-dockerd and this program have the label, also the helper containers of this
 * program. A container that has the label from its image is unmanaged, too.
 */
function isUnmanaged(container: ListedContainer): boolean {
  const { labels } = container;
  return !Object.hasOwn(labels, typeLabel) || mayInheritPodType({ labels, name: listedName(container) });
}
