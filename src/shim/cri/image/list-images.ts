import type { Call } from "../../../lib/call.js";
import type { Answer, Image, ListImagesRequest, StreamImagesRequest } from "../../../domain/cri.js";
import { normalizeReference } from "../../../domain/image-reference.js";
import type { ListedImage } from "../../../domain/snapshot.js";
import type { PinRule } from "../../images/image-pins.js";
import type { Services } from "../services.js";

/** ListImages and StreamImages: all images; with a filter the image of that name, digest or id. */
export async function listImages(
  request: ListImagesRequest | StreamImagesRequest,
  { images: { cache, pins } }: Services,
  call: Call,
): Promise<readonly Answer<Image>[]> {
  const listed = await cache.list(call.signal);
  pins.noteListed(listed);
  const items = itemsOf(listed, await pins.rule(call.signal));
  const wanted = request.filter?.image?.image ?? "";
  if (wanted === "") return items;
  const normalized = normalizeReference(wanted);
  return items.filter(
    ({ id, repo_tags: tags = [], repo_digests: digests = [] }) =>
      id === wanted ||
      id === `sha256:${wanted}` ||
      [...tags, ...digests].some((name) => normalizeReference(name) === normalized),
  );
}

/** The items of a list for as long as it lives, and the rule by which they are pinned. */
const itemsOfLists = new WeakMap<
  readonly ListedImage[],
  { readonly isPinned: PinRule; readonly items: readonly Answer<Image>[] }
>();

/** The same items as long as neither list nor rule has changed: their bytes are kept. */
function itemsOf(listed: readonly ListedImage[], isPinned: PinRule): readonly Answer<Image>[] {
  const known = itemsOfLists.get(listed);
  if (known?.isPinned === isPinned) return known.items;
  const items = listed.map((image) => listedImageItem(image, { pinned: isPinned(image) }));
  itemsOfLists.set(listed, { isPinned, items });
  return items;
}

function listedImageItem(image: ListedImage, { pinned }: { readonly pinned: boolean }): Answer<Image> {
  return {
    id: image.id,
    repo_tags: image.repoTags,
    repo_digests: image.repoDigests,
    size: String(image.size),
    pinned,
  };
}
