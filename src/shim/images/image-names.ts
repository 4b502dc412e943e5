import { normalizeReference, parseReference } from "../../domain/image-reference.js";
import { imageNameLabel, typeLabel } from "../../domain/labels.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { ImageCache } from "./image-cache.js";

type NamedImage = Pick<Snapshot, "labels" | "imageName" | "imageId">;

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

  /** With its registry, as containerd has it. Without an engine request; an image that has no name by its id. */
  nameOf(snapshot: NamedImage): string {
    const image = this.cache.known(snapshot.imageId);
    return normalizeReference(
      givenName(snapshot) ?? image?.repoTags[0] ?? image?.repoDigests[0] ?? snapshot.imageName,
    );
  }

  /** Asks about the image of a container without a name that no call has asked about before. */
  observe(snapshot: NamedImage): void {
    const { imageId, labels } = snapshot;
    // Scratch containers have an empty type: they are of no pod.
    if ((labels[typeLabel] ?? "") === "") return;
    if (givenName(snapshot) !== undefined || this.cache.known(imageId) !== undefined) return;
    if (this.#stop.signal.aborted) return;
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

/** As the request for the container had it. */
function givenName({ labels, imageName }: NamedImage): string | undefined {
  return labels[imageNameLabel] ?? (parseReference(imageName) === undefined ? undefined : imageName);
}
