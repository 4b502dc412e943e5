/** Images of containers and of volumes: imagePullPolicy and pulls. */
import { ShimError, messageOf } from "../../shim/lib/errors.js";
import type { Answer, Image, ImageSpec, PodSandboxConfig } from "../../shim/domain/cri.js";
import { parseReference } from "../../shim/domain/image-reference.js";
import type { CriClient } from "../client.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";

export type PullPolicy = "Always" | "IfNotPresent" | "Never";

/**
 * Kubernetes' default: Always for `latest`, said or implied, and IfNotPresent for any other tag or a digest.
 */
export function pullPolicy({
  image,
  imagePullPolicy,
}: Pick<Container, "image" | "imagePullPolicy">): PullPolicy {
  if (imagePullPolicy !== undefined) return imagePullPolicy;
  const reference = parseReference(image);
  if (reference?.digest !== undefined) return "IfNotPresent";
  return reference?.tag === undefined || reference.tag === "latest" ? "Always" : "IfNotPresent";
}

/** Of a container or of a volume. */
export type WantedImage = Pick<Container, "image" | "imagePullPolicy"> & {
  /** The name of the policy's field in the manifest, for errors. */
  readonly policyField?: "imagePullPolicy" | "pullPolicy";
};

export interface EnsureImageDeps {
  readonly client: Pick<CriClient, "imageStatus" | "pullImage">;
  readonly onPull: (image: string) => void;
}

/** The image, pulled if its policy says so. */
export async function ensureImage(
  wanted: WantedImage,
  sandbox: Answer<PodSandboxConfig>,
  deps: EnsureImageDeps,
  signal: AbortSignal,
): Promise<Image> {
  const { image, policyField = "imagePullPolicy" } = wanted;
  const policy = pullPolicy(wanted);
  const present = await deps.client.imageStatus(image, signal);
  if (policy === "IfNotPresent" && present !== undefined) return present;
  if (policy === "Never") {
    if (present !== undefined) return present;
    throw new ShimError("notFound", `find image "${image}": not on this node, and ${policyField} is Never`);
  }
  deps.onPull(image);
  let pulled: string;
  try {
    pulled = await deps.client.pullImage(image, sandbox, signal);
  } catch (error) {
    const hint = present === undefined ? "" : `; ${presentHint(wanted)}`;
    const { kind, fields } = ShimError.from(error, "unknown");
    throw new ShimError(kind, `pull image "${image}": ${messageOf(error)}${hint}`, fields, { cause: error });
  }
  const found = await deps.client.imageStatus(pulled, signal);
  if (found === undefined)
    throw new ShimError("unknown", `pull image "${image}": pulled, but not on this node`);
  return found;
}

/** Hint for a failed pull of an image that is on the node. */
function presentHint({ imagePullPolicy, policyField = "imagePullPolicy" }: WantedImage): string {
  const why = imagePullPolicy === undefined ? 'its tag is "latest" or missing' : `${policyField} is Always`;
  return `the image is on this node, but ${why}: write "${policyField}: IfNotPresent" to run it without a pull`;
}

/** By the name of the volume. */
export type VolumeImages = ReadonlyMap<string, Answer<ImageSpec>>;

/**
 * The images of the volumes that the container mounts, without those in `known`. `ensure` finds or pulls them
 * one after the other. A volume that no container mounts needs no image, as with the kubelet.
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
