/**
 * CDI devices (`vendor.com/class=name`) for engines that cannot inject them: the Container Device Interface
 * specifications of the node, turned into fields of the create body.
 *
 * Docker has no field for hooks, mount options other than read-only and propagation, or other owners and modes of device
 * nodes. A device that needs one of those is refused by name: half a device would fail somewhere inside the container.
 */
import type { DockerDevice, DockerMount } from "../domain/create-body.js";
import { invalidField, quote, unsupportedField } from "./field-errors.js";

/** One specification file, parsed; `content` is whatever the file held. */
export interface CdiSpecFile {
  readonly path: string;
  /** Index of its directory in the order of the configuration: later directories override earlier ones. */
  readonly priority: number;
  readonly content: unknown;
}

/** What the devices add to a container. */
export interface CdiEdits {
  /** `NAME=value`; replaces a variable of the same name. */
  readonly env: readonly string[];
  readonly devices: readonly DockerDevice[];
  readonly mounts: readonly DockerMount[];
  readonly groups: readonly string[];
}

type Table = Readonly<Record<string, unknown>>;

const namePattern = /^[A-Za-z0-9][\w.-]*\/[A-Za-z][\w-]*=[A-Za-z0-9][\w.:-]*$/;

/** Whether `name` has the form of a fully qualified CDI device name. */
export function isCdiDeviceName(name: string): boolean {
  return namePattern.test(name);
}

/** All edits for `names`, in order; a specification's common edits come once, before those of its first device. */
export function resolveCdiDevices(files: readonly CdiSpecFile[], names: readonly string[]): CdiEdits {
  const used = new Set<CdiSpecFile>();
  const edits = [...new Set(names)].flatMap((name) => {
    const { file, device } = findDevice(files, name);
    const common = used.has(file) ? [] : [toEdits(table(file.content)["containerEdits"], name)];
    used.add(file);
    return [...common, toEdits(device["containerEdits"], name)];
  });
  return {
    env: edits.flatMap((edit) => edit.env),
    devices: edits.flatMap((edit) => edit.devices),
    mounts: edits.flatMap((edit) => edit.mounts),
    groups: [...new Set(edits.flatMap((edit) => edit.groups))],
  };
}

function findDevice(
  files: readonly CdiSpecFile[],
  name: string,
): { readonly file: CdiSpecFile; readonly device: Table } {
  const [kind = "", deviceName = ""] = name.split("=", 2);
  const found = files.flatMap((file) => {
    const spec = table(file.content);
    if (spec["kind"] !== kind) return [];
    return list(spec["devices"])
      .map(table)
      .filter((device) => device["name"] === deviceName)
      .map((device) => ({ file, device }));
  });
  const highest = Math.max(...found.map(({ file }) => file.priority));
  const [best, rival] = found.filter(({ file }) => file.priority === highest);
  if (best === undefined) {
    throw invalidField(
      "config.CDI_devices",
      "unresolvable CDI device: no specification on the node has it",
      name,
    );
  }
  if (rival !== undefined) {
    const where = `${quote(best.file.path)} and ${quote(rival.file.path)}`;
    throw invalidField("config.CDI_devices", `unresolvable CDI device: both ${where} define it`, name);
  }
  return best;
}

const expressible = new Set(["env", "deviceNodes", "mounts", "additionalGids"]);

function toEdits(value: unknown, name: string): CdiEdits {
  const edits = table(value);
  for (const [key, part] of Object.entries(edits)) {
    if (!expressible.has(key) && !isEmpty(part)) throw unsupported(name, key);
  }
  return {
    env: list(edits["env"]).map((entry) => text(entry, name, "env")),
    devices: list(edits["deviceNodes"]).map((node) => toDevice(table(node), name)),
    mounts: list(edits["mounts"]).map((mount) => toMount(table(mount), name)),
    groups: list(edits["additionalGids"]).map((gid) => String(number(gid, name, "additionalGids"))),
  };
}

function toDevice(node: Table, name: string): DockerDevice {
  // Type, major and minor are those of the host's node: Docker looks them up itself.
  for (const key of ["fileMode", "uid", "gid"]) {
    if (node[key] !== undefined) throw unsupported(name, `deviceNodes.${key}`);
  }
  const path = text(node["path"], name, "deviceNodes.path");
  return {
    PathOnHost: isEmpty(node["hostPath"]) ? path : text(node["hostPath"], name, "deviceNodes.hostPath"),
    PathInContainer: path,
    CgroupPermissions: isEmpty(node["permissions"])
      ? "rwm"
      : text(node["permissions"], name, "deviceNodes.permissions"),
  };
}

const propagations: Readonly<Record<string, string>> = {
  rprivate: "rprivate",
  private: "private",
  rslave: "rslave",
  slave: "slave",
  rshared: "rshared",
  shared: "shared",
};

function toMount(mount: Table, name: string): DockerMount {
  const type = mount["type"];
  if (!isEmpty(type) && type !== "bind" && type !== "none")
    throw unsupported(name, `mounts.type ${quote(String(type))}`);
  const options = list(mount["options"]).map((option) => text(option, name, "mounts.options"));
  for (const option of options) {
    if (!["bind", "rbind", "ro", "rw"].includes(option) && propagations[option] === undefined) {
      throw unsupported(name, `mounts.options ${quote(option)}`);
    }
  }
  const propagation = options.map((option) => propagations[option]).find((mode) => mode !== undefined);
  return {
    Type: "bind",
    Source: text(mount["hostPath"], name, "mounts.hostPath"),
    Target: text(mount["containerPath"], name, "mounts.containerPath"),
    ...(options.includes("ro") ? { ReadOnly: true } : {}),
    ...(propagation === undefined ? {} : { BindOptions: { Propagation: propagation } }),
  };
}

function unsupported(name: string, part: string): Error {
  return unsupportedField(
    "config.CDI_devices",
    `this engine cannot apply ${part} of the device's specification`,
    name,
  );
}

function malformed(name: string, part: string): Error {
  return invalidField("config.CDI_devices", `the specification on the node has a malformed ${part}`, name);
}

function table(value: unknown): Table {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Table) : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown, name: string, part: string): string {
  if (typeof value !== "string" || value === "" || value.includes("\0")) throw malformed(name, part);
  return value;
}

function number(value: unknown, name: string, part: string): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) throw malformed(name, part);
  return value;
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0)
  );
}
