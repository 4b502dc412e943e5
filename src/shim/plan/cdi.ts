/**
 * CDI devices (`vendor.com/class=name`): which are requested, and the Container Device Interface
 * specifications of the node, turned into fields of the create body for engines that cannot inject devices.
 *
 * Docker has no field for hooks, mount options other than read-only and propagation, or other owners and
 * modes of device nodes. A device that needs one of those is refused by name: half a device would fail
 * somewhere inside the container.
 */
import type { DockerDevice, DockerMount } from "../../domain/create-body.js";
import type { ContainerConfig } from "../../domain/cri.js";
import { invalidField, preconditionField, quote, unsupportedField } from "../../domain/field-errors.js";
import { cleanPath } from "./paths.js";

/** One specification file, parsed; `content` is whatever the file held, undefined when it cannot be read. */
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

/**
 * As the library of CDI checks it: a vendor and a class begin with a letter, all parts end with a letter or
 * digit.
 */
const namePattern =
  /^[A-Za-z](?:[\w.-]*[A-Za-z\d])?\/[A-Za-z](?:[\w.-]*[A-Za-z\d])?=[A-Za-z\d](?:[\w.:-]*[A-Za-z\d])?$/;

/** Whether `name` has the form of a fully qualified CDI device name. */
export function isCdiDeviceName(name: string): boolean {
  return namePattern.test(name);
}

const annotationPrefix = "cdi.k8s.io/";

/**
 * The names of a request's field and of its annotations, each once. Kubelets of a time of transition send the
 * same device in both. Throws `invalid` for a malformed name.
 */
export function requestedCdiDevices({
  CDI_devices,
  annotations,
}: Pick<ContainerConfig, "CDI_devices" | "annotations">): readonly string[] {
  const named = CDI_devices.map(({ name }, index) => qualified(`config.CDI_devices[${index}].name`, name));
  // Sorted, because the entries of a map have no order on the wire.
  const keys = Object.keys(annotations).filter((key) => key.startsWith(annotationPrefix));
  const annotated = keys.sort().flatMap((key) => {
    const names = (annotations[key] ?? "").split(",");
    return names.map((name) => qualified(`config.annotations[${key}]`, name));
  });
  return [...new Set([...named, ...annotated])];
}

function qualified(field: string, name: string): string {
  if (!isCdiDeviceName(name)) throw invalidField(field, "is not of the form vendor/class=name", name);
  return name;
}

/** All edits for `names`, in order; a specification's common edits come once, before those of its first device. */
export function resolveCdiDevices(files: readonly CdiSpecFile[], names: readonly string[]): CdiEdits {
  const used = new Set<CdiSpecFile>();
  const edits = [...new Set(names)].flatMap((name) => {
    return editsOf(findDevice(files, name), used).map((each) => toEdits(each, name));
  });
  return {
    env: edits.flatMap((edit) => edit.env),
    devices: edits.flatMap((edit) => edit.devices),
    mounts: lastOfEachTarget(edits.flatMap((edit) => edit.mounts)),
    groups: [...new Set(edits.flatMap((edit) => edit.groups))],
  };
}

function lastOfEachTarget(mounts: readonly DockerMount[]): readonly DockerMount[] {
  return [...new Map(mounts.map((mount) => [cleanPath(mount.Target), mount])).values()];
}

/**
 * The environment alone, for devices that the engine injects: it gives that to the first process and to no
 * exec. The engine notices a device that cannot be resolved only at start, so it is refused here; where a file
 * could not be read, which the engine may understand, it is left to the engine.
 */
export function cdiEnvironment(files: readonly CdiSpecFile[], names: readonly string[]): readonly string[] {
  const used = new Set<CdiSpecFile>();
  const areAllRead = files.every(({ content }) => content !== undefined);
  return names.flatMap((name) => {
    if (!areAllRead && findDevices(files, name).length !== 1) return [];
    const entries = editsOf(findDevice(files, name), used).flatMap((each) => list(table(each)["env"]));
    return entries.filter((entry) => typeof entry === "string" && isEntry(entry)) as readonly string[];
  });
}

/** What CDI takes as well. Docker takes an entry without `=` for the removal of a variable. */
function isEntry(entry: string): boolean {
  return /^[^=\0]+=[^\0]*$/.test(entry);
}

interface FoundDevice {
  readonly file: CdiSpecFile;
  readonly device: Table;
}

/** `precondition`, with the name, when it cannot be resolved. */
function findDevice(files: readonly CdiSpecFile[], name: string): FoundDevice {
  const [found, other] = findDevices(files, name);
  if (found === undefined) throw unresolved("no specification on the node has it", name);
  if (other !== undefined)
    throw unresolved(`both ${quote(found.file.path)} and ${quote(other.file.path)} define it`, name);
  return found;
}

/** The device in the directory of the highest priority: one, unless files contradict each other. */
function findDevices(files: readonly CdiSpecFile[], name: string): readonly FoundDevice[] {
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
  return found.filter(({ file }) => file.priority === highest);
}

/** The `containerEdits` to apply: those of the file before those of its first device. */
function editsOf({ file, device }: FoundDevice, used: Set<CdiSpecFile>): readonly unknown[] {
  const common = used.has(file) ? [] : [table(file.content)["containerEdits"]];
  used.add(file);
  return [...common, device["containerEdits"]];
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
    if (!["bind", "rbind", "ro", "rw"].includes(option) && propagations[option] === undefined)
      throw unsupported(name, `mounts.options ${quote(option)}`);
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

/** Not the path of a field: the name may come from an annotation as well. */
const deviceField = "CDI device";

function unresolved(reason: string, name: string): Error {
  return preconditionField(deviceField, `cannot be resolved: ${reason}`, name);
}

function unsupported(name: string, part: string): Error {
  return unsupportedField(
    deviceField,
    `this engine cannot apply ${part} of the device's specification`,
    name,
  );
}

function malformed(name: string, part: string): Error {
  return preconditionField(deviceField, `the specification on the node has a malformed ${part}`, name);
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
