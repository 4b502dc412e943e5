import type { Call } from "../base/call.js";
import { ShimError } from "../base/errors.js";
import type { Answer, RemoveImageResponse } from "../domain/cri.js";
import type { ValidRemoveImage } from "../domain/requests.js";
import type { ImageSnapshot } from "../domain/snapshot.js";
import { findImage } from "./find-image.js";
import { repoDigests, repoTags } from "./image-items.js";
import type { Services } from "./services.js";

/**
 * Removes an image with all its tags and digests, whichever of its names was given; absent is success. An image that a
 * container uses is refused before any of its names is gone.
 */
export async function removeImage(
  request: ValidRemoveImage,
  deps: Pick<Services, "engine" | "model" | "images" | "imageLanes" | "link">,
  call: Call,
): Promise<Answer<RemoveImageResponse>> {
  const { engine, images, imageLanes } = deps;
  const name = request.image.image;
  const found = await findImage(engine, name, call.signal);
  if (found === undefined) return {};
  await imageLanes.run(found.id, call.signal, async () => {
    // A call that waited for its turn finds nothing left to do.
    const image = await engine.inspectImage(found.id, call.signal);
    if (image === undefined) return;
    refuseInUse(image, name, deps);
    try {
      for (const reference of [...repoTags(image.repoTags), ...repoDigests(image.repoDigests), image.id]) {
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

function refuseInUse(image: ImageSnapshot, name: string, { model }: Pick<Services, "model">): void {
  for (const { id, snapshot } of [...model.containers(), ...model.sandboxes()]) {
    if (snapshot.imageId !== image.id) continue;
    throw new ShimError("precondition", `cannot remove image "${name}": container "${id}" uses it`, {
      image: image.id,
      containerId: id,
    });
  }
}
