/** Images in requests. */
import type { ImageSpec } from "../../../domain/cri.js";
import { parseReference, withoutCredentials } from "../../../domain/image-reference.js";
import { invalidField } from "../../../domain/field-errors.js";
import { atMost, notEmpty, present, word } from "./fields.js";

const maxReferenceCharacters = 4096;

/**
 * An image by name, digest or id. A name that is invalid is no error here: no image has it. One with a password is
 * refused, so that no log, label, span or message has it.
 */
export function imageName(field: string, given: ImageSpec | null): ImageSpec {
  const image = present(field, given);
  notEmpty(`${field}.image`, image.image);
  atMost(`${field}.image`, image.image, maxReferenceCharacters);
  for (const name of ["image", "user_specified_image"] as const) {
    if (withoutCredentials(image[name]) !== image[name])
      throw invalidField(
        `${field}.${name}`,
        'has an "@" before a name; credentials go into the auth of PullImage',
      );
  }
  word(`${field}.image`, image.image);
  return image;
}

/** An image that a registry can be asked for: a name, with a tag or digest or neither. */
export function pullReference(field: string, given: ImageSpec | null): ImageSpec {
  const image = imageName(field, given);
  if (parseReference(image.image) === undefined || /^sha256:[0-9a-f]{64}$/.test(image.image)) {
    throw invalidField(`${field}.image`, "is not the name of an image", image.image);
  }
  return image;
}
