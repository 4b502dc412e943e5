import { withDeadline } from "../../lib/abort.js";
import { LruMap } from "../../lib/lru-map.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import type { ImageSnapshot, ListedImage } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import { findImage } from "./find-image.js";

/** Limit of one inspect, which concurrent callers share. */
const inspectTimeoutMs = 5_000;
/**
 * How long an answer is valid without an image event: engines before 29 report no event for a commit or a
 * build without a tag, and some (containerd's image store) one event for a whole prune, at its end; none
 * reports what is done to containerd's image store beside it, and the engine drops events for a slow reader.
 */
const freshMs = 60_000;
/** Number of images by id, and by the names that ImageStatus was asked for. */
const capacity = 2_000;
/** Characters of an image's names and user, which are of any size. What is beyond is left out. */
const imageLimit = 16 * 1024;
/** The same for all images of a list. */
const listLimit = 8 * 1024 * 1024;

/** What is kept of an image. Its labels and its config, of any size, are not. */
export type KnownImage = Pick<
  ImageSnapshot,
  "id" | "repoTags" | "repoDigests" | "size" | "hasRegistry" | "user"
>;

interface Reading {
  /** Number of `forget` calls before the request. */
  readonly generation: number;
  readonly beganAtMs: number;
}

interface Entry extends Reading {
  /** Undefined: the engine has no such image any more. */
  readonly image: KnownImage | undefined;
  /** Whether nothing of the image was left out. */
  readonly isWhole: boolean;
}

export interface ImageCacheDeps {
  readonly engine: Pick<Engine, "inspectImage" | "listImages">;
  /** Whether image events arrive. */
  readonly isLive: () => boolean;
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number;
}

/**
 * What the engine said of its images, until an image event, a change by this program, or a reconnect. Events
 * carry no data: each makes everything stale. That an image is absent is never kept for `find`, because
 * kubelets pull it then.
 */
export class ImageCache {
  readonly #images = new LruMap<string, Entry>(capacity);
  readonly #flights = new SingleFlight<KnownImage | undefined>();
  #list: (Reading & { readonly images: readonly ListedImage[] }) | undefined;
  #generation = 0;

  constructor(private readonly deps: ImageCacheDeps) {}

  /**
   * The image of a container by id, for statuses. Undefined when the engine has no such image any more, or
   * never answered. When the engine does not answer, a stale entry is used: a status must not fail because of
   * the names of an image. Of an image above `imageLimit` it has the first tag, and the first digest of each
   * repository, as many as fit, but no user. Throws only the caller's abort.
   */
  async get(id: string, signal: AbortSignal): Promise<KnownImage | undefined> {
    const known = this.#images.get(id);
    if (known !== undefined && this.#isCurrent(known)) return known.image;
    return this.#flights.run(`${this.#generation} ${id}`, signal, (shared) => this.#ask(id, shared));
  }

  /** What the engine said last of the image with this id, perhaps long ago. */
  known(id: string): KnownImage | undefined {
    return this.#images.get(id)?.image;
  }

  /** As `findImage`. An absence makes everything stale: it may have made no event. */
  async inspect(text: string, signal: AbortSignal): Promise<ImageSnapshot | undefined> {
    const image = await findImage(this.deps.engine, text, signal);
    if (image === undefined) this.forget();
    return image;
  }

  /** As `inspect`, without an engine request for an image that was found before. */
  async find(text: string, signal: AbortSignal): Promise<KnownImage | undefined> {
    const known = this.#images.get(text);
    if (known?.image !== undefined && known.isWhole && this.#isFresh(known)) return known.image;
    const reading = this.#begin();
    const image = await this.inspect(text, signal);
    if (image === undefined) return undefined;
    this.#keep(text, image, reading);
    if (text !== image.id) this.#keep(image.id, image, reading);
    return image;
  }

  /** All images: the same array as before when nothing has changed. */
  async list(signal: AbortSignal): Promise<readonly ListedImage[]> {
    if (this.#list !== undefined && this.#isFresh(this.#list)) return this.#list.images;
    const reading = this.#begin();
    const images = await this.deps.engine.listImages(signal);
    const length = images.reduce((sum, image) => sum + lengthOf(image), 0);
    this.#list = length > listLimit ? undefined : { ...reading, images };
    return images;
  }

  /** Makes everything stale. Called for every image event, each change by this program, and each reconnect. */
  forget(): void {
    this.#generation += 1;
  }

  #isFresh(reading: Reading): boolean {
    return this.deps.isLive() && this.#isCurrent(reading);
  }

  /** Also while no events arrive: each reconnect makes everything stale. */
  #isCurrent({ generation, beganAtMs }: Reading): boolean {
    return generation === this.#generation && this.deps.now() - beganAtMs < freshMs;
  }

  #begin(): Reading {
    return { generation: this.#generation, beganAtMs: this.deps.now() };
  }

  /** What is kept under `key` afterwards: a later inspect may have ended earlier. */
  #keep(key: string, image: ImageSnapshot | undefined, reading: Reading): KnownImage | undefined {
    const before = this.#images.get(key);
    if (before !== undefined && before.generation > reading.generation) return before.image;
    // Names and the list are as old as the image that is gone.
    if (image === undefined && before?.image !== undefined) this.forget();
    const entry = { ...reading, ...boundedImage(image, imageLimit - key.length) };
    if (key.length > imageLimit) this.#images.delete(key);
    else this.#images.set(key, entry);
    return entry.image;
  }

  async #ask(id: string, signal: AbortSignal): Promise<KnownImage | undefined> {
    const reading = this.#begin();
    try {
      const image = await withDeadline(signal, inspectTimeoutMs, `inspect image ${id}`, (limited) =>
        this.deps.engine.inspectImage(id, limited),
      );
      return this.#keep(id, image, reading);
    } catch {
      // The next caller asks again.
      return this.#images.get(id)?.image;
    }
  }
}

/** The parts of `image` that are kept in `limit` characters. */
function boundedImage(image: ImageSnapshot | undefined, limit: number): Pick<Entry, "image" | "isWhole"> {
  if (image === undefined) return { image, isWhole: true };
  const { id, repoTags, repoDigests, size, hasRegistry, user } = image;
  const known = { id, repoTags, repoDigests, size, hasRegistry, user };
  if (user.length + lengthOf(known) <= limit) return { image: known, isWhole: true };
  let room = limit - id.length;
  const fits = (name: string): boolean => (room -= name.length) >= 0;
  const repositories = new Set<string>();
  const isOfNewRepository = (digest: string): boolean => {
    const before = repositories.size;
    return repositories.add(digest.split("@", 1)[0] ?? "").size > before;
  };
  return {
    isWhole: false,
    image: {
      ...known,
      repoTags: repoTags.slice(0, 1).filter(fits),
      repoDigests: repoDigests.filter(isOfNewRepository).filter(fits),
      user: "",
    },
  };
}

/** Characters of id and names. */
function lengthOf({
  id,
  repoTags,
  repoDigests,
}: Pick<KnownImage, "id" | "repoTags" | "repoDigests">): number {
  return [...repoTags, ...repoDigests].reduce((sum, name) => sum + name.length, id.length);
}
