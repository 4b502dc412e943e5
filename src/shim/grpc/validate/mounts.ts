/** Mounts of a new container: paths of the node, or images. */
import { MountPropagation, type Mount } from "../../../domain/cri.js";
import { invalidField, unsupportedField } from "../../../domain/field-errors.js";
import { climbs } from "../../plan/paths.js";
import { absolutePath, atMost, enumValue, noNul } from "./fields.js";
import { imageName } from "./images.js";

const maxSubPathCharacters = 4096;

export function mount(field: string, given: Mount): void {
  absolutePath(`${field}.container_path`, given.container_path);
  enumValue(`${field}.propagation`, given.propagation, MountPropagation);
  // Kubelets of some versions send the message empty for mounts that are no image volumes.
  const isImage = given.image !== null && given.image.image !== "";
  if (isImage) imageVolume(field, given);
  else hostPath(field, given);
  if (given.uidMappings.length > 0)
    throw unsupportedField(`${field}.uidMappings`, "Docker cannot map the ids of a mount");
  if (given.gidMappings.length > 0)
    throw unsupportedField(`${field}.gidMappings`, "Docker cannot map the ids of a mount");
  if (given.mount_options.length > 0) {
    const options = given.mount_options.join(",");
    throw unsupportedField(`${field}.mount_options`, "Docker takes no options for mounts", options);
  }
  if (!given.recursive_read_only) return;
  if (!given.readonly) throw invalidField(`${field}.recursive_read_only`, "needs readonly");
  if (given.propagation !== MountPropagation.PROPAGATION_PRIVATE) {
    throw invalidField(`${field}.recursive_read_only`, "needs propagation PRIVATE");
  }
}

/**
 * `image_sub_path` says nothing here: kubelets from 1.33 on put every subPath there, also that of a path that
 * has it already.
 */
function hostPath(field: string, given: Mount): void {
  absolutePath(`${field}.host_path`, given.host_path);
}

function imageVolume(field: string, given: Mount): void {
  imageName(`${field}.image`, given.image);
  if (given.host_path !== "") {
    throw invalidField(`${field}.host_path`, "must be empty for an image volume", given.host_path);
  }
  if (!given.readonly) throw invalidField(`${field}.readonly`, "an image volume can only be read");
  if (given.propagation !== MountPropagation.PROPAGATION_PRIVATE) {
    throw invalidField(`${field}.propagation`, "an image volume has no mounts to propagate");
  }
  const subPath = given.image_sub_path;
  const subPathField = `${field}.image_sub_path`;
  noNul(subPathField, subPath);
  atMost(subPathField, subPath, maxSubPathCharacters);
  if (subPath.startsWith("/")) throw invalidField(subPathField, "is not a relative path", subPath);
  if (climbs(subPath)) throw invalidField(subPathField, 'leads out of the image by ".."', subPath);
}
