import type { Call } from "../../lib/call.js";
import type { Answer, Image, ImageStatusResponse } from "../../domain/cri.js";
import type { ValidImageStatus } from "../../domain/requests.js";
import type { ImageSnapshot } from "../../domain/snapshot.js";
import { findImage } from "../../images/find-image.js";
import type { Services } from "../services.js";

/** An absent image is an empty answer, not an error. */
export async function imageStatus(
  request: ValidImageStatus,
  services: Services,
  call: Call,
): Promise<Answer<ImageStatusResponse>> {
  const { image: name, annotations } = request.image;
  const [image, isPinned] = await Promise.all([
    findImage(services.engine, name, call.signal),
    services.images.pins.rule(call.signal),
  ]);
  if (image === undefined) return { image: null };
  return {
    // The same for whatever name was asked by, so the spec echoes the annotations only.
    image: { ...inspectedImageItem(image, { pinned: isPinned(image) }), spec: { annotations } },
    info: request.verbose ? { info: await verboseInfo(image, services, call) } : {},
  };
}

/** `uid` or `username` from the image's user, the part before the colon: kubelets check runAsNonRoot with it. */
function inspectedImageItem(image: ImageSnapshot, { pinned }: { readonly pinned: boolean }): Answer<Image> {
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

/** The form that cri-dockerd gave: labels, the OCI image config, and the history, oldest first. */
async function verboseInfo(image: ImageSnapshot, { engine }: Services, call: Call): Promise<string> {
  const history = await engine.imageHistory(image.id, call.signal);
  return JSON.stringify({
    labels: image.labels,
    imageSpec: {
      created: image.created,
      author: image.author,
      architecture: image.architecture,
      os: image.os,
      config: image.config,
      rootfs: { type: "layers", diff_ids: image.layers },
      history: history.toReversed().map((entry) => ({
        created: new Date(Number(entry["Created"]) * 1000).toISOString(),
        created_by: entry["CreatedBy"],
        comment: entry["Comment"],
        empty_layer: entry["Size"] === 0,
      })),
    },
  });
}
