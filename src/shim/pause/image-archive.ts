/**
 * Builds images without an engine, as the archive that `POST /images/load` takes. The archive is at once a
 * docker-save file (manifest.json, read by engines with their own image store) and an OCI layout (index.json,
 * read by the containerd image store, which would otherwise invent a manifest); both point to the same blobs.
 */
import { createHash } from "node:crypto";
import { pack } from "tar-stream";
import { ShimError } from "../../lib/errors.js";
import type { ImageArchitecture } from "../native/programs.js";
import { normalizeReference, parseReference } from "../../domain/image-reference.js";

/** What containers of the image get by default; the names are those of the image configuration. */
export interface ImageConfig {
  readonly Entrypoint?: readonly string[];
  readonly Cmd?: readonly string[];
  readonly Env?: readonly string[];
  readonly Labels?: Readonly<Record<string, string>>;
  readonly User?: string;
  readonly WorkingDir?: string;
  readonly StopSignal?: string;
  /** Keys are paths. */
  readonly Volumes?: Readonly<Record<string, object>>;
}

export interface ImageArchiveOptions {
  /** Name with a tag, without a digest: `dockershim.local/pause:1`. */
  readonly reference: string;
  readonly architecture: ImageArchitecture;
  readonly config: ImageConfig;
  /** Lowest layer first; each the entries of its tar, parents before children. */
  readonly layers: readonly (readonly ArchiveEntry[])[];
}

interface Blob {
  readonly content: Buffer;
  readonly digest: string;
  readonly path: string;
}

const epoch = "1970-01-01T00:00:00Z";

/** Equal options give equal bytes, and the same image id. `invalid` for a reference that engines refuse. */
export async function buildImageArchive(options: ImageArchiveOptions): Promise<Buffer> {
  const { reference, architecture } = options;
  const tag = parseReference(reference);
  if (tag?.tag === undefined || tag.digest !== undefined) {
    throw new ShimError("invalid", `build image "${reference}": the reference must have a tag and no digest`);
  }
  const layers = await Promise.all(options.layers.map(async (entries) => blobOf(await buildTar(entries))));
  const config = jsonBlob(imageConfiguration(options, layers));
  const manifest = jsonBlob({
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: descriptor("application/vnd.oci.image.config.v1+json", config),
    layers: layers.map((layer) => descriptor("application/vnd.oci.image.layer.v1.tar", layer)),
  });
  const index = {
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.index.v1+json",
    manifests: [
      {
        ...descriptor("application/vnd.oci.image.manifest.v1+json", manifest),
        platform: { architecture, os: "linux" },
        annotations: {
          // containerd names the image by the first, the full name; other tools read the second.
          "io.containerd.image.name": normalizeReference(reference),
          "org.opencontainers.image.ref.name": tag.tag,
        },
      },
    ],
  };
  const dockerManifest = [
    { Config: config.path, RepoTags: [reference], Layers: layers.map((layer) => layer.path) },
  ];
  const blobs = new Map([...layers, config, manifest].map((blob) => [blob.path, blob]));
  return buildTar([
    { path: "blobs", type: "directory", mode: 0o755 },
    { path: "blobs/sha256", type: "directory", mode: 0o755 },
    ...[...blobs.values()].map((blob) => file(blob.path, blob.content)),
    file("index.json", jsonBytes(index)),
    file("manifest.json", jsonBytes(dockerManifest)),
    file("oci-layout", jsonBytes({ imageLayoutVersion: "1.0.0" })),
  ]);
}

/** The document whose digest is the image id of engines with their own image store. */
function imageConfiguration(options: ImageArchiveOptions, layers: readonly Blob[]): object {
  const { Entrypoint, Cmd, Env, Labels, User, WorkingDir, StopSignal, Volumes } = options.config;
  return {
    created: epoch,
    architecture: options.architecture,
    os: "linux",
    // The order of keys is part of the image id. JSON leaves out what is undefined.
    config: {
      User,
      Env,
      Entrypoint,
      Cmd,
      WorkingDir,
      Labels: Labels === undefined ? undefined : sortKeys(Labels),
      StopSignal,
      Volumes,
    },
    rootfs: { type: "layers", diff_ids: layers.map((layer) => layer.digest) },
    history: layers.map(() => ({ created: epoch, created_by: "dockershim" })),
  };
}

function sortKeys(record: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function descriptor(mediaType: string, blob: Blob): object {
  return { mediaType, digest: blob.digest, size: blob.content.length };
}

function jsonBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function jsonBlob(value: unknown): Blob {
  return blobOf(jsonBytes(value));
}

function blobOf(content: Buffer): Blob {
  const hex = createHash("sha256").update(content).digest("hex");
  return { content, digest: `sha256:${hex}`, path: `blobs/sha256/${hex}` };
}

function file(path: string, content: Buffer): ArchiveEntry {
  return { path, type: "file", mode: 0o644, content };
}

/** A file, directory or symbolic link in a tar. */
export type ArchiveEntry = {
  /** Relative to the root of the archive; leading slashes are dropped. */
  readonly path: string;
  /** Permission bits, setuid and the like included: `0o755`. */
  readonly mode: number;
  /** Numeric owner, root when missing. */
  readonly uid?: number;
  readonly gid?: number;
} & (
  | { readonly type: "file"; readonly content?: Buffer; readonly target?: never }
  | { readonly type: "directory"; readonly content?: never; readonly target?: never }
  | { readonly type: "symlink"; readonly target: string; readonly content?: never }
);

// tar-stream replaces a mode of 0 by its default. The file type bits keep it from that; it masks them away.
const regularFile = 0o100000;

/** In the given order. Equal entries give equal bytes: all times are the epoch, owners have no names. */
export async function buildTar(entries: readonly ArchiveEntry[]): Promise<Buffer> {
  const tar = pack();
  for (const entry of entries) {
    const header = {
      name: entry.path.replace(/^\/+/, ""),
      mode: entry.mode | regularFile,
      uid: entry.uid ?? 0,
      gid: entry.gid ?? 0,
      mtime: new Date(0),
    };
    if (entry.type === "file") tar.entry({ ...header, type: "file" }, entry.content ?? Buffer.alloc(0));
    else if (entry.type === "symlink") tar.entry({ ...header, type: "symlink", linkname: entry.target });
    else tar.entry({ ...header, type: "directory" });
  }
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
