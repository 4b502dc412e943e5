/**
 * For every field of every request, also new ones, except for the names of maps, which are kept here: no NUL
 * byte, and sizes that engine, kernel and answers can bear.
 */
import { invalidField } from "../../../domain/field-errors.js";
import { at, maxArgumentBytes } from "./fields.js";

/** Kubernetes allows 256 KiB of annotations per object; labels are shorter. */
const maxMapBytes = 512 * 1024;
const maxMapEntries = 4096;
const maxListEntries = 4096;

/** Limited by their bytes (argv, environment), the kernel (groups), or what there is (ports). */
const longerLists: Readonly<Record<string, number>> = {
  command: Number.MAX_SAFE_INTEGER,
  args: Number.MAX_SAFE_INTEGER,
  cmd: Number.MAX_SAFE_INTEGER,
  envs: Number.MAX_SAFE_INTEGER,
  supplemental_groups: 65_536,
  // Kubelets send every containerPort, most of them without a host port.
  port_mappings: 65_536,
};

/** Fields whose keys are the caller's; a test compares them with the protocol. */
export const maps: ReadonlySet<string> = new Set([
  ...["labels", "annotations", "label_selector", "sysctls", "unified", "options"],
]);

/** Throws `invalid`, naming the first field. Values are not shown: they may be secrets. */
export function checkBounds(request: object): void {
  for (const [name, value] of Object.entries(request)) check(name, name, value);
}

function check(path: string, name: string, value: unknown): void {
  if (typeof value === "string") {
    text(path, value);
  } else if (Array.isArray(value)) {
    const limit = longerLists[name] ?? maxListEntries;
    if (value.length > limit) {
      throw invalidField(path, `has ${value.length} entries, at most ${limit} are allowed`);
    }
    value.forEach((entry, index) => {
      check(at(path, index), "", entry);
    });
  } else if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value)) {
    if (maps.has(name)) map(path, value);
    else for (const [key, entry] of Object.entries(value)) check(`${path}.${key}`, key, entry);
  }
}

function text(path: string, value: string): void {
  if (value.includes("\0")) throw invalidField(path, "contains a NUL byte");
  if (value.length > maxArgumentBytes || Buffer.byteLength(value) > maxArgumentBytes) {
    throw invalidField(path, `is longer than ${maxArgumentBytes} bytes`);
  }
}

function map(path: string, entries: object): void {
  const pairs = Object.entries(entries) as [string, string][];
  if (pairs.length > maxMapEntries) {
    throw invalidField(path, `has ${pairs.length} entries, at most ${maxMapEntries} are allowed`);
  }
  let bytes = 0;
  for (const [key, value] of pairs) {
    if (key.includes("\0")) throw invalidField(path, "a key contains a NUL byte");
    if (value.includes("\0")) throw invalidField(`${path}[${key.slice(0, 80)}]`, "contains a NUL byte");
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (bytes > maxMapBytes) {
    throw invalidField(path, `has ${bytes} bytes, at most ${maxMapBytes} are allowed`);
  }
}
