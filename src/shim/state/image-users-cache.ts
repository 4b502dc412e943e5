import { LruMap } from "../lib/lru-map.js";
import type { ImageUserFiles } from "../domain/image-users.js";

/** Images whose user databases are kept. */
const capacity = 32;

/** `/etc/passwd` and `/etc/group` of images by image id: the content of an id never changes. */
export class ImageUsersCache {
  readonly #files = new LruMap<string, ImageUserFiles>(capacity);

  get(imageId: string): ImageUserFiles | undefined {
    return this.#files.get(imageId);
  }

  put(imageId: string, files: ImageUserFiles): void {
    this.#files.set(imageId, files);
  }
}
