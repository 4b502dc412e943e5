/** Image volumes: how Docker mounts the files of an image in a container of another image. */
import type { DockerMount } from "../../domain/create-body.js";
import type { Mount } from "../../domain/cri.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { ImageSnapshot } from "../../domain/snapshot.js";
import type { LayerDirectory } from "../ports/host.js";
import { normalizePath } from "./paths.js";
import { visibleMounts } from "./visible-mounts.js";

/** An image volume of a request. */
export interface ImageVolumeNeed {
  /** Index of the mount in `config.mounts`. */
  readonly index: number;
  readonly image: string;
  /** Relative, normalized; empty for the whole image. */
  readonly subPath: string;
  readonly containerPath: string;
}

/** Where the files are. */
export interface ImageVolumeSource {
  readonly imageId: string;
  /** Name of a volume, or the source of an image mount. */
  readonly from: { readonly volume: string } | { readonly image: string };
  /** Directory in it, relative and without links; empty for all. */
  readonly subPath: string;
}

export function imageVolumeNeeds(mounts: readonly Mount[]): readonly ImageVolumeNeed[] {
  return visibleMounts(mounts).flatMap(([index, mount]) => {
    const image = mount.image?.image ?? "";
    if (image === "") return [];
    const subPath = normalizePath(mount.image_sub_path);
    return [{ index, image, subPath, containerPath: mount.container_path }];
  });
}

/** NoCopy: the volume already has its files, so the engine must not copy those of the container's image into it. */
export function imageVolumeMount(containerPath: string, { from, subPath }: ImageVolumeSource): DockerMount {
  const subpath = subPath === "" ? {} : { Subpath: subPath };
  if ("image" in from) {
    return {
      Type: "image",
      Source: from.image,
      Target: containerPath,
      ...(subPath === "" ? {} : { ImageOptions: subpath }),
    };
  }
  return {
    Type: "volume",
    Source: from.volume,
    Target: containerPath,
    ReadOnly: true,
    VolumeOptions: { NoCopy: true, ...subpath },
  };
}

/** First API version with mounts of type image. */
const imageMountApiMinor = 48;
/** First API version with directories of volumes. */
const volumeSubPathApiMinor = 45;
/** Longest name of a file. */
const maxNameBytes = 255;
/** What Docker itself shows of an id. */
const shortIdDigits = 12;

export function volumesHaveSubPaths(facts: NodeFacts): boolean {
  return facts.apiMinor >= volumeSubPathApiMinor;
}

/**
 * The source of a mount of type image; undefined where the engine cannot mount the image itself. `times`: how
 * often the container mounts this image.
 *
 * Up to Docker 28 a container can mount an image only once. In 29.0 and 29.1 (the change was made at the time
 * of 28.3, and may be in builds of that) the name of a mount is the hex digits of `ID,src=SOURCE,dst=TARGET`,
 * which for a whole image id is longer than the name of a file may be, and graph drivers make a file of it.
 */
export function engineImageSource(
  imageId: string,
  containerPath: string,
  { times }: { readonly times: number },
  facts: NodeFacts,
): string | undefined {
  if (facts.apiMinor < imageMountApiMinor) return undefined;
  const isSince = (...version: readonly [number, number, number]): boolean =>
    versionAtLeast(facts.engineVersion, version);
  if (times > 1 && !isSince(29, 0, 0)) return undefined;
  if (facts.imageStore === "containerd" || !isSince(28, 3, 1) || isSince(29, 2, 0)) return imageId;
  const shortId = imageId.replace(/^sha256:/, "").slice(0, shortIdDigits);
  // The engine cleans the target; the container's id has 64 digits.
  const bytes = 64 + ",src=".length + shortId.length + ",dst=".length + utf8Bytes(containerPath);
  return 2 * bytes <= maxNameBytes ? shortId : undefined;
}

/**
 * The directories of the image's layers, the top one first; undefined where the engine does not keep them so.
 * Rootless engines mark what hides lower layers in another way.
 */
export function imageLayers(image: ImageSnapshot, facts: NodeFacts): readonly string[] | undefined {
  const { UpperDir, LowerDir } = image.graphDriver;
  if (image.graphDriverName !== "overlay2" || UpperDir === undefined || facts.security.rootless)
    return undefined;
  return [UpperDir, ...(LowerDir ?? "").split(":").filter((directory) => directory !== "")];
}

/** The kernel takes one page of options; Docker cuts longer ones, and with them layers, without an error. */
const maxOptionBytes = 4095;

/**
 * Options of a `local` volume that shows these directories as one, the first on top; undefined when they do
 * not fit, or have characters that options cannot have. An overlay that has nothing to write to stays
 * read-only whatever a container does to its mount; the kernel wants two directories at least, so a single
 * one lies on `emptyDirectory`.
 */
export function overlayOptions(
  directories: readonly LayerDirectory[],
  emptyDirectory: string,
): Readonly<Record<string, string>> | undefined {
  const below = directories.length === 1 ? [emptyDirectory] : [];
  const full = [...directories.map(({ path }) => path), ...below];
  const short = [...directories.map(({ path, shortPath }) => shortPath ?? path), ...below];
  for (const paths of [full, short]) {
    const option = `lowerdir=${paths.join(":")}`;
    if (paths.some((path) => /[,:\\]/.test(path)) || utf8Bytes(option) > maxOptionBytes) continue;
    return { type: "overlay", device: "overlay", o: `ro,${option}` };
  }
  return undefined;
}

/**
 * For containers that are never started: tmpfs mounts in the place of the volumes that the image declares.
 * Docker then neither creates those volumes nor copies files into them, and the archive API shows the image's
 * files.
 */
export function withoutDeclaredVolumes({ volumes }: Pick<ImageSnapshot, "volumes">): readonly DockerMount[] {
  return volumes.map((path) => ({ Type: "tmpfs", Source: "", Target: path }));
}

/** What Docker puts into every container and the archive of a container therefore has. */
const standIns = [
  ".dockerenv",
  "dev/console",
  "dev/pts",
  "dev/shm",
  "etc/hostname",
  "etc/hosts",
  "etc/mtab",
  "etc/resolv.conf",
];

/** Those below directory `path` of the image, as paths from there. */
export function standInsBelow(path: string): ReadonlySet<string> {
  const prefix = path === "" ? "" : `${path}/`;
  return new Set(standIns.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length)));
}

function versionAtLeast(text: string, wanted: readonly [number, number, number]): boolean {
  const parts =
    /^(\d+)\.(\d+)(?:\.(\d+))?/
      .exec(text)
      ?.slice(1)
      .map((part) => Number(part || 0)) ?? [];
  for (const [index, number] of wanted.entries()) {
    const part = parts[index] ?? 0;
    if (part !== number) return part > number;
  }
  return true;
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
