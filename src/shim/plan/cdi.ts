/**
 * CDI devices (`vendor.com/class=name`): which are requested, and what the Container Device Interface
 * specifications of the node say of them, for engines that cannot inject devices.
 */
import type { ContainerConfig } from "../../domain/cri.js";
import { invalidField, preconditionField, quote } from "../../domain/field-errors.js";
import { type CdiEdits, deviceField, list, mergeEdits, table, type Table, toEdits } from "./cdi-edits.js";

/** One specification file, parsed; `content` is whatever the file held, undefined when it cannot be read. */
export interface CdiSpecFile {
  readonly path: string;
  /** Index of its directory in the order of the configuration: later directories override earlier ones. */
  readonly priority: number;
  readonly content: unknown;
}

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
  return mergeEdits(
    [...new Set(names)].flatMap((name) =>
      editsOf(findDevice(files, name), used).map((each) => toEdits(each, name)),
    ),
  );
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

function unresolved(reason: string, name: string): Error {
  return preconditionField(deviceField, `cannot be resolved: ${reason}`, name);
}
