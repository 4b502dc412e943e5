/** Which images are reported as pinned: kubelets do not remove them when they collect garbage. */
import { imageNameMatcher } from "../domain/image-reference.js";
import type { ListedImage } from "../domain/snapshot.js";
import type { UnmanagedImages } from "./unmanaged-images.js";

/** The parts of a listed or inspected image by which it is pinned. */
export type Pinnable = Pick<ListedImage, "id" | "repoTags" | "repoDigests" | "hasRegistry">;

export interface ImagePinsDeps {
  readonly pauseImages: { isPinned(names: readonly string[]): boolean };
  readonly unmanagedImages: Pick<UnmanagedImages, "ids">;
  /** Of `--pinned-images`. */
  readonly patterns: readonly string[];
}

/**
 * Pinned are the pause image, images that match `--pinned-images`, images of unmanaged containers, and images
 * with a tag that are in no registry from which they could be pulled again. Kubelets do not know that these
 * are used. An image without a tag and a registry is an intermediate image of a build.
 */
export class ImagePins {
  readonly #isNamed: (name: string) => boolean;
  #withoutRegistry: ReadonlySet<string> = new Set();

  constructor(private readonly deps: ImagePinsDeps) {
    this.#isNamed = imageNameMatcher(deps.patterns);
  }

  /**
   * Called with every whole list: on the containerd image store an inspect cannot tell whether an image has a
   * registry.
   */
  noteListed(images: readonly Pinnable[]): void {
    this.#withoutRegistry = new Set(images.filter((image) => !image.hasRegistry).map(({ id }) => id));
  }

  /**
   * The present rule. Makes an engine request only when unmanaged containers were created or removed since
   * the last one.
   */
  async rule(signal: AbortSignal): Promise<(image: Pinnable) => boolean> {
    const outside = await this.deps.unmanagedImages.ids(signal);
    return (image) => {
      const names = [...image.repoTags, ...image.repoDigests];
      const isLocal = !image.hasRegistry || this.#withoutRegistry.has(image.id);
      return (
        outside.has(image.id) ||
        (image.repoTags.length > 0 && isLocal) ||
        this.deps.pauseImages.isPinned(names) ||
        names.some(this.#isNamed)
      );
    };
  }
}
