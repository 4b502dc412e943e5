/** The JSON of a checkpoint file: written as Go's encoder writes it, read as Go's decoder reads it. */
import type { RawCheckpoint, RawData, RawPortMapping } from "./checksum.js";
import {
  ExactNumber,
  isList,
  isObject,
  JsonSyntaxError,
  parseJson,
  type Json,
  type JsonObject,
} from "../src/lib/json/exact-json.js";

/** Bytes of the largest file that is read or written: some 60 000 port mappings. */
export const maximumFileBytes = 4 * 1024 * 1024;

/** Checkpoints need four levels; no shim writes deeper ones. */
const maximumDepth = 32;

/** Why a file is not a checkpoint. Never leaves this directory. */
export class MalformedFile extends Error {
  override readonly name = "MalformedFile";
}

/** One line without a line end: Go's key order, with `omitempty` fields left out. */
export function formatFile(checkpoint: RawCheckpoint, checksum: number): string {
  const { version, name, namespace, data } = checkpoint;
  const members = [
    ...(data.portMappings !== undefined && data.portMappings.length > 0
      ? [`"port_mappings":[${data.portMappings.map(formatMapping).join(",")}]`]
      : []),
    ...(data.hostNetwork ? ['"host_network":true'] : []),
  ];
  return (
    `{"version":${formatString(version)},"name":${formatString(name)},"namespace":${formatString(namespace)},` +
    `"data":{${members.join(",")}},"checksum":${checksum}}`
  );
}

function formatMapping({ protocol, containerPort, hostPort, hostIp }: RawPortMapping): string {
  const address = hostIp === "" ? "" : `,"host_ip":${formatString(hostIp)}`;
  const ports = `"container_port":${containerPort},"host_port":${hostPort}`;
  return `{"protocol":${formatString(protocol)},${ports}${address}}`;
}

/** Go escapes what HTML and JavaScript would trip over, and had no short form of U+0008 and U+000C. */
function formatString(text: string): string {
  return JSON.stringify(text)
    .replace(/[<>&\u2028\u2029]/g, escapeUnit)
    .replace(/\\.[0-9a-f]{0,4}/g, (escape) => {
      if (escape.startsWith("\\b")) return `\\u0008${escape.slice(2)}`;
      if (escape.startsWith("\\f")) return `\\u000c${escape.slice(2)}`;
      // Half a surrogate pair cannot be said in UTF-8: Go has U+FFFD there.
      return /^\\ud[89a-f]/.test(escape) ? "\\ufffd" : escape;
    });
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Reads a file. Throws `MalformedFile`, also where Go would take a key twice, a null for an object, or bad UTF-8. */
export function parseFile(bytes: Uint8Array): {
  readonly checkpoint: RawCheckpoint;
  readonly checksum: bigint;
} {
  if (bytes.length > maximumFileBytes) throw new MalformedFile(`larger than ${maximumFileBytes} bytes`);
  if (bytes.length === 0) throw new MalformedFile("empty");
  const { value, repeated } = parseText(bytes);
  const fields = fieldsOf(value, "the file", topKeys, repeated);
  return {
    checkpoint: {
      version: stringOf(fields.get("version"), "version") ?? "",
      name: stringOf(fields.get("name"), "name") ?? "",
      namespace: stringOf(fields.get("namespace"), "namespace") ?? "",
      data: dataOf(fields.get("data"), repeated),
    },
    checksum: integerOf(fields.get("checksum"), "checksum", 0n, 2n ** 64n - 1n) ?? 0n,
  };
}

const topKeys = ["version", "name", "namespace", "data", "checksum"];

/** The keys of each object that occur in it more than once. */
type RepeatedKeys = ReadonlyMap<JsonObject, ReadonlySet<string>>;

function parseText(bytes: Uint8Array): { readonly value: Json; readonly repeated: RepeatedKeys } {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new MalformedFile("not UTF-8");
  }
  const repeated = new Map<JsonObject, Set<string>>();
  const onRepeatedKey = (object: JsonObject, key: string): void => {
    repeated.set(object, (repeated.get(object) ?? new Set()).add(key));
  };
  try {
    return { value: parseJson(text, { maxDepth: maximumDepth, onRepeatedKey }), repeated };
  } catch (error) {
    if (error instanceof JsonSyntaxError) throw new MalformedFile(`not JSON: ${error.message}`);
    throw error;
  }
}

function dataOf(value: Json | undefined, repeated: RepeatedKeys): RawData {
  // Go's reader starts from empty data, so it reads a file without data as {}. A null replaces the empty data
  // by a nil pointer, and crashes the Go programs.
  if (value === undefined) return { portMappings: undefined, hostNetwork: false };
  const fields = fieldsOf(value, "data", ["port_mappings", "host_network"], repeated);
  const list = present(fields.get("port_mappings"));
  if (list !== undefined && !isList(list)) throw wrongType("port_mappings", list, "array");
  const hostNetwork = present(fields.get("host_network"));
  if (hostNetwork !== undefined && typeof hostNetwork !== "boolean")
    throw wrongType("host_network", hostNetwork, "boolean");
  return {
    portMappings: list?.map((mapping, index) => mappingOf(mapping, index, repeated)),
    hostNetwork: hostNetwork ?? false,
  };
}

/** Refuses nulls in places where the Go programs accept them, and crash later. */
function mappingOf(value: Json, index: number, repeated: RepeatedKeys): RawPortMapping {
  const name = `port_mappings[${index}]`;
  if (value === null) throw new MalformedFile(`${name} is null`);
  const fields = fieldsOf(value, name, ["protocol", "container_port", "host_port", "host_ip"], repeated);
  const int32Of = (key: string): number | undefined => {
    const integer = integerOf(fields.get(key), `${name}.${key}`, -(2n ** 31n), 2n ** 31n - 1n);
    return integer === undefined ? undefined : Number(integer);
  };
  const protocol = stringOf(fields.get("protocol"), `${name}.protocol`);
  const [containerPort, hostPort] = [int32Of("container_port"), int32Of("host_port")];
  const hostIp = stringOf(fields.get("host_ip"), `${name}.host_ip`) ?? "";
  if (protocol === undefined || containerPort === undefined || hostPort === undefined)
    throw new MalformedFile(`${name} lacks its protocol or a port`);
  return { protocol, containerPort, hostPort, hostIp };
}

/** The members of an object that have one of the `known` keys, in any case. Other members are ignored. */
function fieldsOf(
  value: Json,
  name: string,
  known: readonly string[],
  repeated: RepeatedKeys,
): ReadonlyMap<string, Json> {
  if (!isObject(value)) throw wrongType(name, value, "object");
  const fields = new Map<string, Json>();
  for (const [written, member] of Object.entries(value)) {
    const key = foldCase(written);
    if (!known.includes(key)) continue;
    if (fields.has(key) || repeated.get(value)?.has(written) === true)
      throw new MalformedFile(`${key} occurs twice in ${name}`);
    fields.set(key, member);
  }
  return fields;
}

function wrongType(name: string, value: Json, wanted: string): MalformedFile {
  return new MalformedFile(`${name} is ${typeName(value)}, not ${wanted}`);
}

function typeName(value: Json): string {
  if (value === null) return "null";
  if (value instanceof ExactNumber) return "number";
  return isList(value) ? "array" : typeof value;
}

/** Go compares keys by Unicode's simple folding, in which the long s and the kelvin sign are letters of ASCII too. */
function foldCase(key: string): string {
  return key
    .replace(/\u017f/g, "s")
    .replace(/\u212a/g, "k")
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** Go leaves a field as it is when the file says null. */
function present(value: Json | undefined): Exclude<Json, null> | undefined {
  return value ?? undefined;
}

function stringOf(value: Json | undefined, name: string): string | undefined {
  const found = present(value);
  if (found === undefined || typeof found === "string") return found;
  throw wrongType(name, found, "string");
}

function integerOf(
  value: Json | undefined,
  name: string,
  lowest: bigint,
  highest: bigint,
): bigint | undefined {
  const found = present(value);
  if (found === undefined) return undefined;
  if (typeof found !== "number" && !(found instanceof ExactNumber)) throw wrongType(name, found, "number");
  const literal = typeof found === "number" ? String(found) : found.text;
  // 20 digits hold every 64-bit number: no long conversion for a literal of a million digits.
  const integer = /^-?\d{1,20}$/.test(literal) ? BigInt(literal) : undefined;
  if (integer === undefined || integer < lowest || integer > highest)
    throw new MalformedFile(`${name} is not an integer in its range`);
  return integer;
}
