import { parseReference } from "../../domain/image-reference.js";
import type { ImageSnapshot } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";

/**
 * The image of a reference: a name with or without tag, with a digest, or an id with or without `sha256:`.
 * Docker also resolves prefixes of ids: so that a name that looks like one (`cafe`) finds no other image, the
 * answer is compared with the reference.
 */
export async function findImage(
  engine: Pick<Engine, "inspectImage">,
  text: string,
  signal: AbortSignal,
): Promise<ImageSnapshot | undefined> {
  const image = await engine.inspectImage(text, signal);
  if (image === undefined) return undefined;
  return matches(image, text) ? image : undefined;
}

function matches(image: ImageSnapshot, text: string): boolean {
  const bare = text.replace(/^sha256:/, "");
  // A prefix of an id counts when it is too long to be meant as a name.
  if (/^[0-9a-f]{12,64}$/.test(bare) && image.id.replace(/^sha256:/, "").startsWith(bare)) return true;
  const reference = parseReference(text);
  if (reference === undefined) return false;
  const { repository, tag, digest } = reference;
  if (digest !== undefined)
    return image.id === digest || image.repoDigests.some((one) => one.endsWith(`@${digest}`));
  const wanted = `${repository}:${tag ?? "latest"}`;
  return image.repoTags.some((one) => {
    const known = parseReference(one);
    return known !== undefined && `${known.repository}:${known.tag ?? "latest"}` === wanted;
  });
}
