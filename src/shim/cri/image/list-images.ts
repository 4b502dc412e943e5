import type { Call } from "../../lib/call.js";
import type { Answer, Image, ListImagesRequest, StreamImagesRequest } from "../../domain/cri.js";
import { normalizeReference } from "../../domain/image-reference.js";
import type { ListedImage } from "../../domain/snapshot.js";
import type { Services } from "../services.js";

/** ListImages and StreamImages: all images; with a filter the image of that name, digest or id. */
export async function listImages(
  request: ListImagesRequest | StreamImagesRequest,
  { engine, images: { pins: imagePins } }: Services,
  call: Call,
): Promise<readonly Answer<Image>[]> {
  const [listed, isPinned] = await Promise.all([engine.listImages(call.signal), imagePins.rule(call.signal)]);
  imagePins.noteListed(listed);
  const wanted = request.filter?.image?.image ?? "";
  const normalized = normalizeReference(wanted);
  const matching = listed.filter(
    (image) =>
      wanted === "" ||
      image.id === wanted ||
      image.id === `sha256:${wanted}` ||
      [...image.repoTags, ...image.repoDigests].some((name) => normalizeReference(name) === normalized),
  );
  return matching.map((image) => listedImageItem(image, { pinned: isPinned(image) }));
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
