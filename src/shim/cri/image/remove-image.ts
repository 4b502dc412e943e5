import { ShimError } from "../../../lib/errors.js";
import type { Handler } from "../services.js";

/**
 * Removes an image with all its tags and digests. An absent image is a success. An image in use is refused
 * before a name is removed: any container of the engine may use it, and containers of pods also as a volume.
 */
export const removeImage: Handler<"RemoveImage"> = async (request, services, call) => {
  const { engine } = services;
  const { cache: images, scratch, volumes: imageVolumes, locks: imageLocks } = services.images;
  const name = request.image.image;
  // Only the read model knows the users of image volumes.
  await services.state.link.live(call.signal);
  const found = await images.inspect(name, call.signal);
  if (found === undefined) return {};
  await imageLocks.run(found.id, call.signal, async () => {
    // A concurrent call may have removed the image.
    const image = await images.inspect(found.id, call.signal);
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
      for (const reference of [...image.repoTags, ...image.repoDigests, image.id])
        await engine.removeImage(reference, call.signal);
    } catch (error) {
      throw ShimError.from(error).within(`remove image "${name}"`, { image: image.id });
    } finally {
      images.forget();
    }
  });
  return {};
};
