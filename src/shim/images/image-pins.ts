/** Which images are reported as pinned: kubelets do not remove them when they collect garbage. */
import { imageNameMatcher } from "../../domain/image-reference.js";
import type { ListedImage } from "../../domain/snapshot.js";
import type { UnmanagedImages } from "./unmanaged-images.js";

/** The parts of a listed or inspected image by which it is pinned. */
export type Pinnable = Pick<ListedImage, "id" | "repoTags" | "repoDigests" | "hasRegistry">;
export type PinRule = (image: Pinnable) => boolean;

export interface ImagePinsDeps {
  readonly pauseImages: { isPinned(names: readonly string[]): boolean };
  readonly unmanagedImages: Pick<UnmanagedImages, "ids">;
  /** Patterns of `--pinned-images`. */
  readonly patterns: readonly string[];
}

/**
 * Pinned are the pause image, images that match `--pinned-images`, images of unmanaged containers, and images
 * with a tag that are in no registry from which they could be pulled again. Kubelets do not know that these
 * are used. An image without a tag and a registry is an intermediate image of a build.
 */
export class ImagePins {
  readonly #isNamed: (name: string) => boolean;
  #noted: readonly Pinnable[] = [];
  #withoutRegistry: ReadonlySet<string> = new Set();
  #latest: { readonly outside: ReadonlySet<string>; readonly isPinned: PinRule } | undefined;

  constructor(private readonly deps: ImagePinsDeps) {
    this.#isNamed = imageNameMatcher(deps.patterns);
  }

  /**
   * Called with every whole list: on the containerd image store an inspect cannot tell whether an image has a
   * registry.
   */
  noteListed(images: readonly Pinnable[]): void {
    if (images === this.#noted) return;
    this.#noted = images;
    this.#withoutRegistry = new Set(images.filter((image) => !image.hasRegistry).map(({ id }) => id));
    this.#latest = undefined;
  }

  /**
   * The present rule: the same function as before when nothing has changed. Makes an engine request only when
   * unmanaged containers were created or removed since the last one.
   */
  async rule(signal: AbortSignal): Promise<PinRule> {
    const outside = await this.deps.unmanagedImages.ids(signal);
    if (this.#latest?.outside !== outside)
      this.#latest = { outside, isPinned: (image) => this.#isPinned(image, outside) };
    return this.#latest.isPinned;
  }

  #isPinned(image: Pinnable, outside: ReadonlySet<string>): boolean {
    const names = [...image.repoTags, ...image.repoDigests];
    const isLocal = !image.hasRegistry || this.#withoutRegistry.has(image.id);
    return (
      outside.has(image.id) ||
      (image.repoTags.length > 0 && isLocal) ||
      this.deps.pauseImages.isPinned(names) ||
      names.some(this.#isNamed)
    );
  }
}
