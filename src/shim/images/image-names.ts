import { parseReference } from "../domain/image-reference.js";
import { imageNameLabel } from "../domain/labels.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { ImageCache } from "./image-cache.js";

/**
 * The names of containers' images, for metrics. Kubelets create containers from ids of images; newer ones also
 * say the name, which is in a label then. Other names are the image's first tag or digest, as with containerd.
 */
export class ImageNames {
  /** Ids of images that are asked about in the background, one after the other. */
  readonly #wanted = new Set<string>();
  readonly #stop = new AbortController();
  #asking: Promise<void> | undefined;

  constructor(private readonly cache: Pick<ImageCache, "get" | "known">) {}

  /** Without an engine request. The id of an image whose name is not known. */
  nameOf({ labels, imageName, imageId }: Pick<Snapshot, "labels" | "imageName" | "imageId">): string {
    const asked = labels[imageNameLabel];
    if (asked !== undefined) return asked;
    if (parseReference(imageName) !== undefined) return imageName;
    const image = this.cache.known(imageId);
    return image?.repoTags[0] ?? image?.repoDigests[0] ?? imageName;
  }

  /** Asks about the image of a container without a name that no call has asked about before. */
  observe(snapshot: Pick<Snapshot, "labels" | "imageName" | "imageId">): void {
    const { imageId } = snapshot;
    if (this.nameOf(snapshot) !== snapshot.imageName || parseReference(snapshot.imageName) !== undefined)
      return;
    if (this.cache.known(imageId) !== undefined || this.#stop.signal.aborted) return;
    this.#wanted.add(imageId);
    this.#asking ??= this.#ask();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#asking;
  }

  async #ask(): Promise<void> {
    const { signal } = this.#stop;
    for (const id of this.#wanted) {
      if (signal.aborted) break;
      // It throws nothing but the reason of the signal.
      await this.cache.get(id, signal).catch(() => undefined);
      this.#wanted.delete(id);
    }
    this.#asking = undefined;
  }
}
