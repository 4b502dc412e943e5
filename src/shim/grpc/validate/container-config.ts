/** The configuration of a new container. */
import { Signal, type ContainerConfig, type Device, type KeyValue } from "../../../domain/cri.js";
import type { ValidContainerConfig } from "../../../domain/requests.js";
import { requestedCdiDevices } from "../../plan/cdi.js";
import { environment } from "../../plan/environment.js";
import { invalidField } from "../../../domain/field-errors.js";
import {
  absolutePath,
  argument,
  argumentSize,
  at,
  enumValue,
  notEmpty,
  present,
  program,
  programSize,
  withoutWindows,
} from "./fields.js";
import { imageName } from "./images.js";
import { containerMetadata, labels } from "./metadata.js";
import { mount } from "./mounts.js";
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
