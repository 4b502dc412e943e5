/** Images of containers and of volumes: imagePullPolicy and pulls. */
import { ShimError, aggregate, messageOf } from "../../lib/errors.js";
import type { Answer, Image, PodSandboxConfig } from "../../domain/cri.js";
import { parseReference } from "../../domain/image-reference.js";
import type { CriClient } from "../cri/client.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import type { CredentialLookup } from "./pull-credentials.js";
import type { PodContainer } from "../pod-config/resources.js";
import type { VolumeImages } from "../pod-config/volumes.js";

export type PullPolicy = "Always" | "IfNotPresent" | "Never";

/** Kubernetes' default: Always for `latest`, said or implied, and IfNotPresent for any other tag or a digest. */
export function pullPolicy({
  image,
  imagePullPolicy,
}: Pick<Container, "image" | "imagePullPolicy">): PullPolicy {
  if (imagePullPolicy !== undefined) return imagePullPolicy;
  const reference = parseReference(image);
  if (reference?.digest !== undefined) return "IfNotPresent";
  return reference?.tag === undefined || reference.tag === "latest" ? "Always" : "IfNotPresent";
}

/** The image of a container or of a volume. */
export type WantedImage = Pick<Container, "image" | "imagePullPolicy"> & {
  /** The name of the policy's field in the manifest, for errors. */
  readonly policyField?: "imagePullPolicy" | "pullPolicy";
};

export interface EnsureImageDeps {
  readonly client: Pick<CriClient, "imageStatus" | "pullImage">;
  readonly credentials: CredentialLookup;
  readonly onPull: (image: string) => void;
  /** An image of this host is used where a kubelet would pull, for the given reason. Called each time. */
  readonly onLocalImage: (image: string, why: string) => void;
}

/**
 * The image, pulled if its policy says so. When no policy is written, an image that was built or loaded here
 * needs no registry: one that never was in a registry is not pulled, and one that cannot be pulled is used as
 * it is (the containerd image store gives a digest to loaded images, too).
 */
export async function ensureImage(
  wanted: WantedImage,
  sandbox: Answer<PodSandboxConfig>,
  deps: EnsureImageDeps,
  signal: AbortSignal,
): Promise<Image> {
  const { image, imagePullPolicy, policyField = "imagePullPolicy" } = wanted;
  const policy = pullPolicy(wanted);
  const present = await deps.client.imageStatus(image, signal);
  if (policy === "IfNotPresent" && present !== undefined) return present;
  if (policy === "Never") {
    if (present !== undefined) return present;
    throw new ShimError("notFound", `find image "${image}": not on this node, and ${policyField} is Never`);
  }
  const spare = imagePullPolicy === undefined ? present : undefined;
  if (spare?.repo_digests.length === 0) {
    deps.onLocalImage(image, "it never was in a registry");
    return spare;
  }
  deps.onPull(image);
  let pulled: string;
  try {
    pulled = await pull(image, sandbox, deps, signal);
  } catch (error) {
    if (spare !== undefined && !signal.aborted) {
      deps.onLocalImage(image, `its pull failed: ${messageOf(error)}`);
      return spare;
    }
    const remedy = `; the image is on this node: write "${policyField}: IfNotPresent" to run it without a pull`;
    const hint = present === undefined ? "" : remedy;
    const { kind, fields } = ShimError.from(error, "unknown");
    throw new ShimError(kind, `pull image "${image}": ${messageOf(error)}${hint}`, fields, { cause: error });
  }
  const found = await deps.client.imageStatus(pulled, signal);
  if (found === undefined)
    throw new ShimError("unknown", `pull image "${image}": pulled, but not on this node`);
  return found;
}

/** With each of the credentials in turn, as the kubelet; without any when there are none. */
async function pull(
  image: string,
  sandbox: Answer<PodSandboxConfig>,
  { client, credentials }: EnsureImageDeps,
  signal: AbortSignal,
): Promise<string> {
  const all = await credentials(image, signal);
  if (all.length === 0) return client.pullImage(image, sandbox, signal);
  const errors: unknown[] = [];
  for (const auth of all) {
    try {
      return await client.pullImage(image, sandbox, signal, auth);
    } catch (error) {
      if (signal.aborted) throw error;
      errors.push(error);
    }
  }
  throw aggregate(errors) ?? new ShimError("internal", "no credentials");
}

/** The images of the volumes that the container mounts, without those in `known`; `ensure` pulls them. */
export async function ensureVolumeImages(
  { volumeMounts = [] }: PodContainer,
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
