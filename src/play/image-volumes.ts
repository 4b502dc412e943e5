/** Volumes of a pod that are the files of an image. */
import type { Answer, Image, ImageSpec } from "../shim/domain/cri.js";
import type { Container, PodSpec } from "./honoured-fields.js";
import type { WantedImage } from "./images.js";

/** By the name of the volume. */
export type VolumeImages = ReadonlyMap<string, Answer<ImageSpec>>;

/**
 * The images of the volumes that the container mounts, but for those in `known`, one after the other, as `ensure` finds or
 * pulls them. A volume that no container mounts needs no image, as with the kubelet.
 */
export async function ensureVolumeImages(
  { volumeMounts = [] }: Container,
  { volumes = [] }: PodSpec,
  known: VolumeImages,
  ensure: (wanted: WantedImage) => Promise<Image>,
): Promise<VolumeImages> {
  const images = new Map(known);
  for (const { name, image } of volumes) {
    if (image === undefined || images.has(name) || !volumeMounts.some((mount) => mount.name === name))
      continue;
    const { reference, pullPolicy } = image;
    const wanted = pullPolicy === undefined ? {} : { imagePullPolicy: pullPolicy };
    const { id } = await ensure({ image: reference, policyField: "pullPolicy", ...wanted });
    images.set(name, { image: id, user_specified_image: reference });
  }
  return images;
}
