/** The configuration of a new container. */
import {
  MountPropagation,
  Signal,
  type ContainerConfig,
  type Device,
  type KeyValue,
  type Mount,
} from "../../../domain/cri.js";
import type { ValidContainerConfig } from "../../../domain/requests.js";
import { requestedCdiDevices } from "../../plan/cdi.js";
import { environment } from "../../plan/environment.js";
import { climbs } from "../../plan/paths.js";
import { mountUsers } from "../../plan/user-namespaces.js";
import { invalidField } from "../../../domain/field-errors.js";
import {
  absolutePath,
  argument,
  argumentSize,
  at,
  atMost,
  enumValue,
  noNul,
  notEmpty,
  present,
  program,
  programSize,
  withoutWindows,
} from "./fields.js";
import { imageName } from "./images.js";
import { containerMetadata, labels } from "./metadata.js";
import { containerResources } from "./resources.js";
import { containerSecurityContext } from "./security-context.js";

const maxSubPathCharacters = 4096;

export function containerConfig(given: ContainerConfig | null): ValidContainerConfig {
  const config = present("config", given);
  const metadata = containerMetadata("config.metadata", config.metadata);
  const image = imageName("config.image", config.image);
  for (const name of ["command", "args"] as const) {
    config[name].forEach((entry, index) => {
      argument(at(`config.${name}`, index), entry);
    });
  }
  // Whether one of the arguments is the program, the created container tells.
  program("config.command[0]", config.command[0] ?? "");
  if (config.working_dir !== "") absolutePath("config.working_dir", config.working_dir);
  config.envs.forEach(environmentVariable);
  const words = [...config.command, ...config.args].map((entry) => Buffer.byteLength(entry));
  programSize("config.args", words);
  programSize("config.envs", [...words, ...config.envs.map(entryBytes)]);
  environment(config.envs, "config.envs"); // All values are UTF-8.
  config.mounts.forEach((given, index) => {
    mount(at("config.mounts", index), given);
  });
  config.devices.forEach(device);
  requestedCdiDevices(config); // All names are well formed.
  labels("config.labels", config.labels);
  enumValue("config.stop_signal", config.stop_signal, Signal);
  withoutWindows("config.windows", config.windows);
  const resources = config.linux?.resources ?? null;
  if (resources !== null) containerResources("config.linux.resources", resources);
  const security = config.linux?.security_context ?? null;
  if (security !== null) containerSecurityContext("config.linux.security_context", security);
  return { ...config, metadata, image };
}

function environmentVariable({ key, value }: KeyValue, index: number): void {
  const field = at("config.envs", index);
  notEmpty(`${field}.key`, key);
  if (key.includes("=")) throw invalidField(`${field}.key`, 'contains "="', key);
  if (key.includes("\0") || value.includes(0)) throw invalidField(field, "contains a NUL byte");
  argumentSize(field, entryBytes({ key, value }));
}

/** Size of `NAME=value`, as the kernel counts it. */
function entryBytes({ key, value }: KeyValue): number {
  return Buffer.byteLength(key) + 1 + value.length;
}

function device(given: Device, index: number): void {
  const field = at("config.devices", index);
  absolutePath(`${field}.host_path`, given.host_path);
  absolutePath(`${field}.container_path`, given.container_path);
  if (!/^[rwm]{1,3}$/.test(given.permissions)) {
    throw invalidField(`${field}.permissions`, "must be one or more of r, w and m", given.permissions);
  }
}

/** A path of the node, or an image. */
function mount(field: string, given: Mount): void {
  absolutePath(`${field}.container_path`, given.container_path);
  enumValue(`${field}.propagation`, given.propagation, MountPropagation);
  // Kubelets of some versions send the message empty for mounts that are no image volumes.
  const isImage = given.image !== null && given.image.image !== "";
  if (isImage) imageVolume(field, given);
  // `image_sub_path` says nothing here: kubelets from 1.33 on put every subPath there.
  else absolutePath(`${field}.host_path`, given.host_path);
  mountUsers(given, field); // Mappings that a mount can have.
  if (!given.recursive_read_only) return;
  if (!given.readonly) throw invalidField(`${field}.recursive_read_only`, "needs readonly");
  if (given.propagation !== MountPropagation.PROPAGATION_PRIVATE) {
    throw invalidField(`${field}.recursive_read_only`, "needs propagation PRIVATE");
  }
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
