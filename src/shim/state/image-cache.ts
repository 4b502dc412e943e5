import { orAbort, withDeadline } from "../base/abort.js";
import { LruMap } from "../base/lru-map.js";
import type { ImageSnapshot } from "../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";

/** Limit of the shared inspect, which outlives the caller that began it. */
const inspectTimeoutMs = 5_000;
const capacity = 2_000;

interface Entry {
  readonly answer: Promise<ImageSnapshot | undefined>;
  /** Of `forget` calls before the inspect began. */
  readonly generation: number;
}

/**
 * Images of known containers by id, so that statuses need no image inspect each. An image id names fixed content, but
 * its names change: after an image event an answer is stale. A stale one is still better than none when the engine does
 * not answer: a status must not fail because of the names of an image.
 */
export class ImageCache {
  readonly #images = new LruMap<string, Entry>(capacity);
  readonly #last = new LruMap<string, ImageSnapshot>(capacity);
  #generation = 0;

  constructor(private readonly engine: Pick<Engine, "inspectImage">) {}

  /** Undefined when the engine does not have it any more, or never answered for it. Throws only the caller's abort. */
  async get(id: string, signal: AbortSignal): Promise<ImageSnapshot | undefined> {
    const known = this.#images.get(id);
    if (known?.generation === this.#generation) return orAbort(known.answer, signal);
    const entry = { answer: this.#ask(id, this.#generation), generation: this.#generation };
    this.#images.set(id, entry);
    return orAbort(entry.answer, signal);
  }

  /** To be called for every image event, and after each reconnect. */
  forget(): void {
    this.#generation += 1;
  }

  async #ask(id: string, generation: number): Promise<ImageSnapshot | undefined> {
    try {
      const image = await withDeadline(undefined, inspectTimeoutMs, `inspect image ${id}`, (signal) =>
        this.engine.inspectImage(id, signal),
      );
      if (image === undefined) this.#last.delete(id);
      else this.#last.set(id, image);
      return image;
    } catch {
      // The next caller asks again.
      if (this.#images.get(id)?.generation === generation) this.#images.delete(id);
      return this.#last.get(id);
    }
  }
}
