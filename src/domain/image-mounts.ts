/**
 * The image volumes of a container, in one of its labels: Docker knows at most the volume, but not the image.
 * The label is the only record of which containers use an image in this way.
 */
import { imageMountsLabel, type Labels } from "./labels.js";

export interface ImageMount {
  readonly containerPath: string;
  /** The image as the request named it. */
  readonly image: string;
  /** `sha256:…` */
  readonly imageId: string;
  /** As the request has it; empty for the whole image. */
  readonly subPath: string;
  /** Name of the volume that has the files; empty where the engine itself mounts the image. */
  readonly volume: string;
}

/** The value of the label. */
export function formatImageMounts(mounts: readonly ImageMount[]): string {
  return JSON.stringify(mounts);
}

/** The image volumes of a container with these labels; none when the label is missing or malformed. */
export function imageMountsOf(labels: Labels): readonly ImageMount[] {
  const text = labels[imageMountsLabel];
  if (text === undefined) return [];
  try {
    const parsed: unknown = JSON.parse(text);
    return Array.isArray(parsed) && parsed.every(isImageMount) ? parsed : [];
  } catch {
    return [];
  }
}

function isImageMount(value: unknown): value is ImageMount {
  if (typeof value !== "object" || value === null) return false;
  const fields = new Map<string, unknown>(Object.entries(value));
  return ["containerPath", "image", "imageId", "subPath", "volume"].every(
    (name) => typeof fields.get(name) === "string",
  );
}
