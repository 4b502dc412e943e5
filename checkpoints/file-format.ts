/** The JSON of a checkpoint file: written as Go's encoder writes it, read as Go's decoder reads it, but never guessing. */
import type { RawCheckpoint, RawData, RawPortMapping } from "./checksum.js";
import { JsonSyntaxError, parseJson, type JsonValue } from "./strict-json.js";

/** Bytes of the largest file that is read or written: some 60 000 port mappings. */
export const maximumFileBytes = 4 * 1024 * 1024;

/** Why a file is no checkpoint. Never leaves this directory. */
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
    `"data":{${members.join(",")}},"checksum":${String(checksum)}}`
  );
}

function formatMapping(mapping: RawPortMapping | null): string {
  if (mapping === null) return "null";
  const { protocol, containerPort, hostPort, hostIp } = mapping;
  const members = [
    ...(protocol === undefined ? [] : [`"protocol":${formatString(protocol)}`]),
    ...(containerPort === undefined ? [] : [`"container_port":${String(containerPort)}`]),
    ...(hostPort === undefined ? [] : [`"host_port":${String(hostPort)}`]),
    ...(hostIp === "" ? [] : [`"host_ip":${formatString(hostIp)}`]),
  ];
  return `{${members.join(",")}}`;
}

/** Go escapes what HTML and JavaScript would trip over, and knows (in dockershim's days) no short form of U+0008 and U+000C. */
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
  if (bytes.length > maximumFileBytes)
    throw new MalformedFile(`larger than ${String(maximumFileBytes)} bytes`);
  if (bytes.length === 0) throw new MalformedFile("empty");
  const fields = fieldsOf(parseText(bytes), "the file", ["version", "name", "namespace", "data", "checksum"]);
  return {
    checkpoint: {
      version: stringOf(fields.get("version"), "version") ?? "",
      name: stringOf(fields.get("name"), "name") ?? "",
      namespace: stringOf(fields.get("namespace"), "namespace") ?? "",
      data: dataOf(fields.get("data")),
    },
    checksum: integerOf(fields.get("checksum"), "checksum", 0n, 2n ** 64n - 1n) ?? 0n,
  };
}

function parseText(bytes: Uint8Array): JsonValue {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new MalformedFile("not UTF-8");
  }
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) throw new MalformedFile(`not JSON: ${error.message}`);
    throw error;
  }
}

function dataOf(value: JsonValue | undefined): RawData {
  // Go's reader starts from empty data, so a file without any is read as if it said {}. A null is another matter: it
  // replaces the empty data by a nil pointer, and kills the Go programs.
  if (value === undefined) return { portMappings: undefined, hostNetwork: false };
  const fields = fieldsOf(value, "data", ["port_mappings", "host_network"]);
  const list = present(fields.get("port_mappings"));
  if (list !== undefined && list.kind !== "array")
    throw new MalformedFile(`port_mappings is ${list.kind}, not array`);
  const hostNetwork = present(fields.get("host_network"));
  if (hostNetwork !== undefined && hostNetwork.kind !== "boolean") {
    throw new MalformedFile(`host_network is ${hostNetwork.kind}, not boolean`);
  }
  return { portMappings: list?.items.map(mappingOf), hostNetwork: hostNetwork?.value ?? false };
}

function mappingOf(value: JsonValue, index: number): RawPortMapping | null {
  if (value.kind === "null") return null;
  const name = `port_mappings[${String(index)}]`;
  const fields = fieldsOf(value, name, ["protocol", "container_port", "host_port", "host_ip"]);
  const int32Of = (key: string): number | undefined => {
    const integer = integerOf(fields.get(key), `${name}.${key}`, -(2n ** 31n), 2n ** 31n - 1n);
    return integer === undefined ? undefined : Number(integer);
  };
  return {
    protocol: stringOf(fields.get("protocol"), `${name}.protocol`),
    containerPort: int32Of("container_port"),
    hostPort: int32Of("host_port"),
    hostIp: stringOf(fields.get("host_ip"), `${name}.host_ip`) ?? "",
  };
}

/** The members of an object that have one of the `known` keys, in any case. Others are nobody's business. */
function fieldsOf(value: JsonValue, name: string, known: readonly string[]): ReadonlyMap<string, JsonValue> {
  if (value.kind !== "object") throw new MalformedFile(`${name} is ${value.kind}, not object`);
  const fields = new Map<string, JsonValue>();
  for (const [written, member] of value.members) {
    const key = foldCase(written);
    if (!known.includes(key)) continue;
    if (fields.has(key)) throw new MalformedFile(`${key} occurs twice in ${name}`);
    fields.set(key, member);
  }
  return fields;
}

/** Go compares keys by Unicode's simple folding, in which the long s and the kelvin sign are letters of ASCII too. */
function foldCase(key: string): string {
  return key
    .replace(/\u017f/g, "s")
    .replace(/\u212a/g, "k")
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** Go leaves a field as it is when the file says null. */
function present(value: JsonValue | undefined): Exclude<JsonValue, { kind: "null" }> | undefined {
  return value === undefined || value.kind === "null" ? undefined : value;
}

function stringOf(value: JsonValue | undefined, name: string): string | undefined {
  const found = present(value);
  if (found === undefined) return undefined;
  if (found.kind !== "string") throw new MalformedFile(`${name} is ${found.kind}, not string`);
  return found.value;
}

function integerOf(
  value: JsonValue | undefined,
  name: string,
  lowest: bigint,
  highest: bigint,
): bigint | undefined {
  const found = present(value);
  if (found === undefined) return undefined;
  if (found.kind !== "number") throw new MalformedFile(`${name} is ${found.kind}, not number`);
  // 20 digits hold every 64-bit number: no long conversion for a literal of a million digits.
  const integer = /^-?\d{1,20}$/.test(found.literal) ? BigInt(found.literal) : undefined;
  if (integer === undefined || integer < lowest || integer > highest) {
    throw new MalformedFile(`${name} is no integer in its range`);
  }
  return integer;
}
