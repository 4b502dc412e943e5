import type { Call } from "../../../lib/call.js";
import type { Answer, Image } from "../../../domain/cri.js";
import type { ImageSnapshot } from "../../../domain/snapshot.js";
import type { KnownImage } from "../../images/image-cache.js";
import type { Handler, Services } from "../services.js";

/** An absent image is an empty answer, not an error. */
export const imageStatus: Handler<"ImageStatus"> = async (request, services, call) => {
  const { image: name, annotations } = request.image;
  const { cache, pins } = services.images;
  const { image, info } = request.verbose
    ? await inspectVerbose(name, services, call)
    : { image: await cache.find(name, call.signal), info: {} };
  if (image === undefined) return { image: null };
  const isPinned = await pins.rule(call.signal);
  return {
    // Equal for all names of the image, so the spec repeats only the annotations of the request.
    image: { ...inspectedImageItem(image, { pinned: isPinned(image) }), spec: { annotations } },
    info,
  };
};

/** `uid` or `username` is the image's user up to the colon. Kubelets check runAsNonRoot with it. */
function inspectedImageItem(image: KnownImage, { pinned }: { readonly pinned: boolean }): Answer<Image> {
  const user = image.user.split(":")[0] ?? "";
  return {
    id: image.id,
    repo_tags: image.repoTags,
    repo_digests: image.repoDigests,
    size: String(image.size),
    pinned,
    // The text is the image's. A longer number is no user id, and may not fit into the field.
    ...(/^\d{1,18}$/.test(user) ? { uid: { value: user } } : { username: user }),
  };
}

/** From the engine: what is kept has no labels and no config. */
async function inspectVerbose(
  name: string,
  services: Services,
  call: Call,
): Promise<{ readonly image: ImageSnapshot | undefined; readonly info: Record<string, string> }> {
  const image = await services.images.cache.inspect(name, call.signal);
  return { image, info: image === undefined ? {} : { info: await verboseInfo(image, services, call) } };
}

/** The form of cri-dockerd: labels, the OCI image config, and the history, oldest first. */
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
