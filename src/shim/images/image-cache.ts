import { withDeadline } from "../lib/abort.js";
import { LruMap } from "../lib/lru-map.js";
import { SingleFlight } from "../lib/sync/single-flight.js";
import type { ImageSnapshot } from "../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";

/** Limit of one inspect, which concurrent callers share. */
const inspectTimeoutMs = 5_000;
const capacity = 2_000;

interface Entry {
  /** Undefined: the engine has no such image any more. */
  readonly image: ImageSnapshot | undefined;
  /** Number of `forget` calls before the inspect began. */
  readonly generation: number;
}

/**
 * Images of known containers by id, so that a status needs no image inspect. The content of an image id is
 * fixed, but its names change: after an image event an entry is stale. When the engine does not answer, a
 * stale entry is used: a status must not fail because of the names of an image.
 */
export class ImageCache {
  readonly #images = new LruMap<string, Entry>(capacity);
  readonly #flights = new SingleFlight<ImageSnapshot | undefined>();
  #generation = 0;

  constructor(private readonly engine: Pick<Engine, "inspectImage">) {}

  /**
   * Undefined when the engine has no such image any more, or never answered. Throws only the caller's abort.
   */
  async get(id: string, signal: AbortSignal): Promise<ImageSnapshot | undefined> {
    const generation = this.#generation;
    const known = this.#images.get(id);
    if (known?.generation === generation) return known.image;
    return this.#flights.run(`${generation} ${id}`, signal, (shared) => this.#ask(id, generation, shared));
  }

  /** Makes all entries stale. Called for every image event, and after each reconnect. */
  forget(): void {
    this.#generation += 1;
  }

  async #ask(id: string, generation: number, signal: AbortSignal): Promise<ImageSnapshot | undefined> {
    try {
      const image = await withDeadline(signal, inspectTimeoutMs, `inspect image ${id}`, (limited) =>
        this.engine.inspectImage(id, limited),
      );
      // A later inspect may have ended earlier.
      if ((this.#images.get(id)?.generation ?? -1) <= generation) this.#images.set(id, { image, generation });
      return image;
    } catch {
      // The next caller asks again.
      return this.#images.get(id)?.image;
    }
  }
}
