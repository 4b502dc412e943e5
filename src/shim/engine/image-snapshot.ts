/** Images as the engine describes them, in our own shape, for API 1.41 to 1.56. */
import { ShimError } from "../../lib/errors.js";
import { essentialLabels } from "../../domain/labels.js";
import type { ImageSnapshot, ListedImage } from "../../domain/snapshot.js";
import {
  asList,
  asObject,
  flagOf,
  type Json,
  labelsOf,
  numberOf,
  objectOf,
  objectsOf,
  textOf,
  textsOf,
} from "../../lib/json/json-readers.js";
import { type Essentials, members } from "./http/json-stream.js";

/*
 * What is kept of answers that are too large: labels and environments have no limit. All that is read below
 * must be here.
 */

/** Fields read of `GET /images/{reference}/json`. */
export const imageEssentials: Essentials = {
  ...members("Id", "RepoTags", "RepoDigests", "Created", "Author", "Architecture", "Os", "Size"),
  Config: { ...members("User", "StopSignal", "Volumes"), Labels: members(...essentialLabels) },
  RootFS: members("Layers"),
  GraphDriver: members("Name", "Data"),
};

/** Fields read of an entry of `GET /images/json`. */
export const listedImageEssentials: Essentials = {
  ...members("Id", "RepoTags", "RepoDigests", "Size", "Manifests"),
};

/** The answer of `GET /images/{reference}/json`. At API 1.52 it leaves out all empty fields. */
export function toImageSnapshot(answer: unknown): ImageSnapshot {
  const json = asObject(answer);
  const config = objectOf(json, "Config");
  return {
    id: idOf(json),
    repoTags: tagsOf(json),
    repoDigests: digestsOf(json),
    size: sizeOf(json),
    hasRegistry: hasDigest(json),
    user: textOf(config, "User"),
    stopSignal: textOf(config, "StopSignal"),
    labels: labelsOf(config, "Labels"),
    architecture: textOf(json, "Architecture"),
    os: textOf(json, "Os"),
    author: textOf(json, "Author"),
    created: textOf(json, "Created"),
    config,
    layers: textsOf(objectOf(json, "RootFS"), "Layers"),
    volumes: Object.keys(objectOf(config, "Volumes")),
    graphDriverName: textOf(objectOf(json, "GraphDriver"), "Name"),
    graphDriver: labelsOf(objectOf(json, "GraphDriver"), "Data"),
  };
}

/** One entry of `GET /images/json`; undefined for an entry without an id, which no call could name. */
export function toListedImage(answer: unknown): ListedImage | undefined {
  const json = asObject(answer);
  const id = textOf(json, "Id");
  if (id === "") return undefined;
  return {
    id,
    repoTags: tagsOf(json),
    repoDigests: digestsOf(json),
    size: sizeOf(json),
    hasRegistry: hasDigest(json) && !isKnownAsLocal(json),
  };
}

function idOf(json: Json): string {
  const id = textOf(json, "Id");
  if (id === "") throw new ShimError("unknown", "read an image: the engine's answer names no id");
  return id;
}

/** 0 for other numbers: they would fail the whole answer of the CRI. */
function sizeOf(json: Json): number {
  const size = numberOf(json, "Size");
  return Number.isSafeInteger(size) && size >= 0 ? size : 0;
}

/**
 * Without `<none>:<none>`, which engines before API 1.43 give to an image without a tag, and without the
 * digest reference that the containerd image store gives to one that was pulled by digest.
 */
function tagsOf(json: Json): readonly string[] {
  return textsOf(json, "RepoTags").filter((tag) => tag !== "" && !isPlaceholder(tag) && !tag.includes("@"));
}

/** Without `<none>@<none>`, and without the bare digest of an image that is here for other platforms only. */
function digestsOf(json: Json): readonly string[] {
  return textsOf(json, "RepoDigests").filter((digest) => !isPlaceholder(digest) && digest.includes("@"));
}

function isPlaceholder(name: string): boolean {
  return name.includes("<none>");
}

/** With graph drivers: pulled or pushed images; with the containerd image store: all with a name. */
function hasDigest(json: Json): boolean {
  return !textsOf(json, "RepoDigests").every(isPlaceholder);
}

/**
 * Whether the identities that the list tells of the platforms of an image name no registry. The engine notes
 * a registry at a pull, and at a push.
 */
function isKnownAsLocal(json: Json): boolean {
  const platforms = objectsOf(json, "Manifests").filter(
    (manifest) => textOf(manifest, "Kind") === "image" && flagOf(manifest, "Available"),
  );
  const wasPulled = (manifest: Json): boolean =>
    asList(objectOf(objectOf(manifest, "ImageData"), "Identity")["Pull"]).length > 0;
  return platforms.length > 0 && !platforms.some(wasPulled);
}
