import { createHash } from "node:crypto";
import { ShimError } from "../../src/lib/errors.js";
import { normalizeReference } from "../../src/domain/image-reference.js";
import type { ImageSnapshot, ListedImage } from "../../src/domain/snapshot.js";
import type { EngineEvent } from "../../src/shim/ports/engine.js";

interface FakeImage {
  readonly id: string;
  readonly tags: Set<string>;
  readonly digests: Set<string>;
  readonly changes: Partial<ImageSnapshot>;
  readonly files: Readonly<Record<string, string>>;
}

export interface NewImage {
  readonly id?: string;
  /** Full or familiar names with tag. */
  readonly tags?: readonly string[];
  readonly digests?: readonly string[];
  readonly snapshot?: Partial<ImageSnapshot>;
  /** Content by absolute path, seen in every container of the image. */
  readonly files?: Readonly<Record<string, string>>;
}

/** The images of a fake engine. Names are resolved as Docker does, prefixes of ids included. */
export class FakeImages {
  readonly #images = new Map<string, FakeImage>();

  constructor(
    private readonly emit: (event: EngineEvent) => void,
    private readonly isUsed: (imageId: string) => boolean,
  ) {}

  add({ tags = [], digests = [], snapshot = {}, files = {}, ...given }: NewImage): string {
    const id =
      given.id ??
      `sha256:${createHash("sha256")
        .update(JSON.stringify([tags, digests]))
        .digest("hex")}`;
    for (const image of this.#images.values()) for (const tag of tags) image.tags.delete(tag);
    this.#images.set(id, { id, tags: new Set(tags), digests: new Set(digests), changes: snapshot, files });
    this.emit({ type: "image", action: "pull", id: tags[0] ?? id });
    return id;
  }

  /** The image vanishes, in use or not. */
  lose(reference: string): void {
    const image = this.find(reference);
    if (image !== undefined) this.#images.delete(image.id);
  }

  find(reference: string): FakeImage | undefined {
    for (const image of this.#images.values()) {
      if (image.id === reference) return image;
      if (reference !== "" && image.id.slice("sha256:".length).startsWith(reference)) return image;
      const wanted = normalizeReference(reference);
      if ([...image.tags, ...image.digests].some((name) => normalizeReference(name) === wanted)) return image;
    }
    return undefined;
  }

  list(): readonly ListedImage[] {
    return [...this.#images.values()].map((image) => {
      const { id, repoTags, repoDigests, size, hasRegistry } = snapshotOfImage(image);
      return { id, repoTags, repoDigests, size, hasRegistry };
    });
  }

  inspect(reference: string): ImageSnapshot | undefined {
    const image = this.find(reference);
    return image === undefined ? undefined : snapshotOfImage(image);
  }

  remove(reference: string): "removed" | "missing" {
    const image = this.find(reference);
    if (image === undefined) return "missing";
    const byId = image.id.includes(reference);
    const names = [image.tags, image.digests];
    const wanted = normalizeReference(reference);
    const left = byId ? 0 : [...image.tags].filter((tag) => normalizeReference(tag) !== wanted).length;
    if (left === 0 && this.isUsed(image.id))
      throw new ShimError("precondition", `conflict: unable to remove repository reference "${reference}"`);
    if (byId && image.tags.size > 1)
      throw new ShimError("precondition", `conflict: unable to delete ${reference} (must be forced)`);
    for (const set of names)
      for (const name of set) if (normalizeReference(name) === wanted) set.delete(name);
    this.emit({ type: "image", action: "untag", id: image.id });
    if (byId || image.tags.size === 0) {
      this.#images.delete(image.id);
      this.emit({ type: "image", action: "delete", id: image.id });
    }
    return "removed";
  }
}

function snapshotOfImage({ id, tags, digests, changes }: FakeImage): ImageSnapshot {
  return {
    id,
    repoTags: [...tags],
    repoDigests: [...digests],
    size: 1000,
    hasRegistry: digests.size > 0,
    user: "",
    stopSignal: "",
    labels: {},
    architecture: "amd64",
    os: "linux",
    author: "",
    created: "2024-01-01T00:00:00Z",
    config: {},
    layers: [],
    volumes: [],
    graphDriverName: "",
    graphDriver: {},
    ...changes,
  };
}
