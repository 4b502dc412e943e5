/** Which images kubelets are told to spare when they collect garbage. */
import { imageNameMatcher } from "../domain/image-reference.js";
import type { ListedImage } from "../domain/snapshot.js";
import type { UnmanagedImages } from "./unmanaged-images.js";

/** What is to be known of an image, listed or inspected. */
export type Pinnable = Pick<ListedImage, "id" | "repoTags" | "repoDigests" | "hasRegistry">;

export interface ImagePinsDeps {
  readonly pauseImages: { isPinned(names: readonly string[]): boolean };
  readonly unmanagedImages: Pick<UnmanagedImages, "ids">;
  /** Of `--pinned-images`. */
  readonly patterns: readonly string[];
}

/**
 * Pinned are the pause image, what `--pinned-images` names, what a container outside of pods is made of, and what has a
 * tag but is in no registry from which it could be pulled again. Kubelets know none of these as used. An image without a
 * tag that was never in a registry is a leftover of a build, and garbage.
 */
export class ImagePins {
  readonly #isNamed: (name: string) => boolean;
  #withoutRegistry: ReadonlySet<string> = new Set();

  constructor(private readonly deps: ImagePinsDeps) {
    this.#isNamed = imageNameMatcher(deps.patterns);
  }

  /** To be told of every whole list: an inspect on the containerd image store cannot say who has a registry. */
  noteListed(images: readonly Pinnable[]): void {
    this.#withoutRegistry = new Set(images.filter((image) => !image.hasRegistry).map(({ id }) => id));
  }

  /** As of now. Makes an engine request only when containers outside of pods have come or gone since the last one. */
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
