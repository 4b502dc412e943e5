/** The configuration of a new container. */
import {
  MountPropagation,
  Signal,
  type ContainerConfig,
  type Device,
  type KeyValue,
  type Mount,
} from "../../domain/cri.js";
import type { ValidContainerConfig } from "../../domain/requests.js";
import { isCdiDeviceName } from "../../plan/cdi.js";
import { environment } from "../../plan/environment.js";
import { invalidField, unsupportedField } from "../../plan/field-errors.js";
import { absolutePath, argument, at, enumValue, noNul, notEmpty, present } from "./fields.js";
import { imageName } from "./images.js";
import { containerMetadata, labels } from "./metadata.js";
import { containerResources } from "./resources.js";
import { containerSecurityContext } from "./security-context.js";

export function containerConfig(given: ContainerConfig | null): ValidContainerConfig {
  const config = present("config", given);
  const metadata = containerMetadata("config.metadata", config.metadata);
  const image = imageName("config.image", config.image);
  for (const name of ["command", "args"] as const) {
    config[name].forEach((entry, index) => {
      argument(at(`config.${name}`, index), entry);
    });
  }
  if (config.working_dir !== "") absolutePath("config.working_dir", config.working_dir);
  config.envs.forEach(environmentVariable);
  environment(config.envs); // All values are UTF-8.
  config.mounts.forEach(mount);
  config.devices.forEach(device);
  config.CDI_devices.forEach(({ name }, index) => {
    if (!isCdiDeviceName(name)) {
      throw invalidField(
        `${at("config.CDI_devices", index)}.name`,
        "is not of the form vendor/class=name",
        name,
      );
    }
  });
  labels("config.labels", config.labels);
  noNul("config.log_path", config.log_path);
  enumValue("config.stop_signal", config.stop_signal, Signal);
  if (config.windows !== null)
    throw unsupportedField("config.windows", "this is a runtime for Linux containers");
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
  argument(field, `${key}=${value.toString("latin1")}`);
}

function mount(given: Mount, index: number): void {
  const field = at("config.mounts", index);
  if (given.image !== null && given.image.image !== "") {
    throw unsupportedField(`${field}.image`, "image volumes are not supported");
  }
  if (given.image_sub_path !== "") throw invalidField(`${field}.image_sub_path`, "is only for image volumes");
  absolutePath(`${field}.container_path`, given.container_path);
  absolutePath(`${field}.host_path`, given.host_path);
  enumValue(`${field}.propagation`, given.propagation, MountPropagation);
  if (given.uidMappings.length > 0)
    throw unsupportedField(`${field}.uidMappings`, "Docker cannot map the ids of a mount");
  if (given.gidMappings.length > 0)
    throw unsupportedField(`${field}.gidMappings`, "Docker cannot map the ids of a mount");
  if (given.mount_options.length > 0) {
    const options = given.mount_options.join(",");
    throw unsupportedField(`${field}.mount_options`, "Docker takes no options for bind mounts", options);
  }
  if (!given.recursive_read_only) return;
  if (!given.readonly) throw invalidField(`${field}.recursive_read_only`, "needs readonly");
  if (given.propagation !== MountPropagation.PROPAGATION_PRIVATE) {
    throw invalidField(`${field}.recursive_read_only`, "needs propagation PRIVATE");
  }
}

function device(given: Device, index: number): void {
  const field = at("config.devices", index);
  absolutePath(`${field}.host_path`, given.host_path);
  absolutePath(`${field}.container_path`, given.container_path);
  if (!/^[rwm]{1,3}$/.test(given.permissions)) {
    throw invalidField(`${field}.permissions`, "must be one or more of r, w and m", given.permissions);
  }
}
