/** Images as the CRI shows them. */
import type { Answer, Image } from "../domain/cri.js";
import type { ImageSnapshot, ListedImage } from "../domain/snapshot.js";
import type { Services } from "./services.js";

type Pins = Pick<Services["pauseImages"], "isPinned">;

/** Without `<none>:<none>` (engines below API 1.43) and without digests among the tags (containerd image store). */
export function repoTags(names: readonly string[]): readonly string[] {
  return names.filter((name) => !name.startsWith("<none>") && !name.includes("@"));
}

export function repoDigests(names: readonly string[]): readonly string[] {
  return names.filter((name) => !name.startsWith("<none>"));
}

export function listedImageItem(image: ListedImage, pins: Pins): Answer<Image> {
  const tags = repoTags(image.repoTags);
  return {
    id: image.id,
    repo_tags: tags,
    repo_digests: repoDigests(image.repoDigests),
    size: String(image.size),
    pinned: pins.isPinned([...tags, ...image.repoDigests]),
  };
}

/** `uid` or `username` from the image's user, the part before the colon: kubelets check runAsNonRoot with it. */
export function inspectedImageItem(image: ImageSnapshot, pins: Pins): Answer<Image> {
  const tags = repoTags(image.repoTags);
  const user = image.user.split(":")[0] ?? "";
  return {
    id: image.id,
    repo_tags: tags,
    repo_digests: repoDigests(image.repoDigests),
    size: String(image.size),
    pinned: pins.isPinned([...tags, ...image.repoDigests]),
    ...(/^\d+$/.test(user) ? { uid: { value: user } } : { username: user }),
  };
}
