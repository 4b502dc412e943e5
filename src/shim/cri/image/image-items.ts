/** Images as the CRI shows them. */
import type { Answer, Image } from "../../domain/cri.js";
import type { ImageSnapshot, ListedImage } from "../../domain/snapshot.js";

export function listedImageItem(image: ListedImage, { pinned }: { readonly pinned: boolean }): Answer<Image> {
  return {
    id: image.id,
    repo_tags: image.repoTags,
    repo_digests: image.repoDigests,
    size: String(image.size),
    pinned,
  };
}

/** `uid` or `username` from the image's user, the part before the colon: kubelets check runAsNonRoot with it. */
export function inspectedImageItem(
  image: ImageSnapshot,
  { pinned }: { readonly pinned: boolean },
): Answer<Image> {
  const user = image.user.split(":")[0] ?? "";
  return {
    id: image.id,
    repo_tags: image.repoTags,
    repo_digests: image.repoDigests,
    size: String(image.size),
    pinned,
    // Any image may have this text. A longer number is nobody's id, and the field may not be able to say it.
    ...(/^\d{1,18}$/.test(user) ? { uid: { value: user } } : { username: user }),
  };
}
