/** Images as the engine describes them, in our own shape, for API 1.41 to 1.56. */
import { ShimError } from "../base/errors.js";
import type { ImageSnapshot, ListedImage } from "../domain/snapshot.js";
import { asObject, type Json, labelsOf, numberOf, objectOf, textOf, textsOf } from "./json.js";

/** The answer of `GET /images/{reference}/json`. At API 1.52 it leaves out all empty fields. */
export function toImageSnapshot(answer: unknown): ImageSnapshot {
  const json = asObject(answer);
  const config = objectOf(json, "Config");
  return {
    id: idOf(json),
    repoTags: tagsOf(json),
    repoDigests: digestsOf(json),
    size: numberOf(json, "Size"),
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

/** One entry of the answer of `GET /images/json`. */
export function toListedImage(answer: unknown): ListedImage {
  const json = asObject(answer);
  return {
    id: idOf(json),
    repoTags: tagsOf(json),
    repoDigests: digestsOf(json),
    size: numberOf(json, "Size"),
    sharedSize: typeof json["SharedSize"] === "number" ? json["SharedSize"] : -1,
    labels: labelsOf(json, "Labels"),
  };
}

function idOf(json: Json): string {
  const id = textOf(json, "Id");
  if (id === "") throw new ShimError("unknown", "read an image: the engine's answer names no id");
  return id;
}

/**
 * Without `<none>:<none>`, which engines before API 1.43 give to an image without a tag, and without the digest
 * reference that the containerd image store gives to one that was pulled by digest.
 */
function tagsOf(json: Json): readonly string[] {
  return textsOf(json, "RepoTags").filter((tag) => tag !== "<none>:<none>" && !tag.includes("@"));
}

function digestsOf(json: Json): readonly string[] {
  return textsOf(json, "RepoDigests").filter((digest) => digest !== "<none>@<none>");
}
