import type { Call } from "../../lib/call.js";
import { ShimError } from "../../lib/errors.js";
import type { Answer, RemoveImageResponse } from "../../domain/cri.js";
import type { ValidRemoveImage } from "../../domain/requests.js";
import { findImage } from "../../images/find-image.js";
import type { Services } from "../services.js";

/**
 * Removes an image with all its tags and digests, whichever of its names was given; absent is success. An image that any
 * container of the engine uses, a pod's or not, or that a pod's container has as a volume, is refused before one of its
 * names is gone.
 */
export async function removeImage(
  request: ValidRemoveImage,
  services: Services,
  call: Call,
): Promise<Answer<RemoveImageResponse>> {
  const { engine } = services;
  const { cache: images, scratch, volumes: imageVolumes, locks: imageLocks } = services.images;
  const name = request.image.image;
  // Who uses an image as a volume is in the read model only.
  await services.state.link.live(call.signal);
  const found = await findImage(engine, name, call.signal);
  if (found === undefined) return {};
  await imageLocks.run(found.id, call.signal, async () => {
    // A call that waited for its turn finds nothing left to do.
    const image = await engine.inspectImage(found.id, call.signal);
    if (image === undefined) return;
    await scratch.settled(image.id, call.signal);
    await imageVolumes.requireUnused(image.id, call.signal).catch((error: unknown) => {
      throw ShimError.from(error).within(`cannot remove image "${name}"`);
    });
    const [user] = await engine.listContainers({ ancestor: image.id }, call.signal);
    if (user !== undefined) {
      throw new ShimError("precondition", `cannot remove image "${name}": container "${user.id}" uses it`, {
        image: image.id,
        containerId: user.id,
      });
    }
    try {
      for (const reference of [...image.repoTags, ...image.repoDigests, image.id]) {
        await engine.removeImage(reference, call.signal);
      }
    } catch (error) {
      throw ShimError.from(error).within(`remove image "${name}"`, { image: image.id });
    } finally {
      images.forget();
    }
  });
  return {};
}
