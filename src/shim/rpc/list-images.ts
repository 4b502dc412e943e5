import type { Call } from "../base/call.js";
import type { Answer, ListImagesRequest, ListImagesResponse } from "../domain/cri.js";
import { normalizeReference } from "../domain/image-reference.js";
import { listedImageItem } from "./image-items.js";
import type { Services } from "./services.js";

/** All images; with a filter those of that name, digest or id. */
export async function listImages(
  request: ListImagesRequest,
  { engine, pauseImages }: Pick<Services, "engine" | "pauseImages">,
  call: Call,
): Promise<Answer<ListImagesResponse>> {
  const listed = await engine.listImages(call.signal);
  const wanted = request.filter?.image?.image ?? "";
  const normalized = normalizeReference(wanted);
  const matching = listed.filter(
    (image) =>
      wanted === "" ||
      image.id === wanted ||
      image.id === `sha256:${wanted}` ||
      [...image.repoTags, ...image.repoDigests].some((name) => normalizeReference(name) === normalized),
  );
  return { images: matching.map((image) => listedImageItem(image, pauseImages)) };
}
