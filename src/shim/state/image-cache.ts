import { orAbort, withDeadline } from "../base/abort.js";
import type { ImageSnapshot } from "../domain/snapshot.js";
import type { Engine, EngineEvent } from "../ports/engine.js";

/** Limit of the shared inspect, which outlives the caller that began it. */
const inspectTimeoutMs = 10_000;

/**
 * Images of known containers by id, so that statuses need no image inspect each. An image id names fixed content, but
 * its names change: every image event forgets everything, which is cheap because image events are rare.
 */
export class ImageCache {
  #images = new Map<string, Promise<ImageSnapshot | undefined>>();

  constructor(private readonly engine: Pick<Engine, "inspectImage">) {}

  /** Undefined when the engine does not have it any more. */
  async get(id: string, signal: AbortSignal): Promise<ImageSnapshot | undefined> {
    const images = this.#images;
    const known = images.get(id);
    if (known !== undefined) return orAbort(known, signal);
    const asked = withDeadline(undefined, inspectTimeoutMs, `inspect image ${id}`, (limited) =>
      this.engine.inspectImage(id, limited),
    );
    // A failed or empty answer is not kept, and neither is one that began before an event.
    const kept = asked.then(
      (image) => {
        if (image === undefined) images.delete(id);
        return image;
      },
      (error: unknown) => {
        images.delete(id);
        throw error;
      },
    );
    kept.catch(() => undefined);
    images.set(id, kept);
    return orAbort(kept, signal);
  }

  /** To be called for every image event, and after each reconnect. */
  forget(_event?: EngineEvent): void {
    this.#images = new Map();
  }
}
