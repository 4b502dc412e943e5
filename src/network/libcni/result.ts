/** Results of ADD: parsing, conversion between versions, and the addresses of the pod. */
import { isIP } from "node:net";
import { messageOf, ShimError } from "../../lib/errors.js";
import {
  integerOf,
  isList,
  isObject,
  parseJson,
  stringAt,
  type Json,
  type JsonObject,
} from "../../lib/json/exact-json.js";
import { isAtLeast, isKnownVersion, oldestVersion } from "./versions.js";

/** `null` is empty; a missing `cniVersion` is the configuration's. Throws `unknown` for anything else. */
export function parseResult(stdout: string, configVersion: string): JsonObject {
  if (stdout.trim() === "") throw problem("failed to unmarshal raw result: unexpected end of JSON input");
  let value: Json;
  try {
    value = parseJson(stdout);
  } catch (error) {
    throw problem(`failed to unmarshal raw result: ${messageOf(error)}, in ${quote(stdout)}`);
  }
  if (value === null) return { cniVersion: configVersion };
  if (!isObject(value)) throw problem(`the result is not a JSON object: ${quote(stdout)}`);
  const cniVersion = value["cniVersion"] ?? "";
  if (typeof cniVersion !== "string") throw problem(`"cniVersion" of the result is not a string`);
  if (cniVersion === "") return { ...value, cniVersion: configVersion };
  if (!isKnownVersion(cniVersion))
    throw problem(`unsupported CNI result version ${JSON.stringify(cniVersion)}`);
  return value;
}

/** `result` in the shape of `version`. Throws `unknown` when data cannot be kept. */
export function convertResult(result: JsonObject, version: string): JsonObject {
  const from = stringAt(result, "cniVersion") ?? oldestVersion;
  if (from === version) return result;
  if (shapeOf(from) === shapeOf(version)) return { ...result, cniVersion: version };
  const common = commonForm(result);
  switch (shapeOf(version)) {
    case "families":
      return toFamilies(common, version);
    case "versioned":
      return toList(common, version, (ip) => ({ version: familyOf(ip["address"]) ?? "4", ...ip }));
    case "plain":
      return toList(common, version, (ip) => ip);
  }
}

/**
 * Addresses of the pod, without prefix length, IPv4 first: those of the interface `ifName` inside a sandbox,
 * and those without an interface. Chained plugins add interfaces of the host, so the index of the interface
 * counts, not its position. Without such addresses, those of any interface with a sandbox or of that name are
 * taken. Loopback addresses are left out: an endpoint of a Service with one would lead each node to itself.
 */
export function podAddresses(result: JsonObject, ifName: string): readonly string[] {
  const { interfaces, ips } = commonForm(result);
  const on = (fits: (entry: JsonObject) => boolean): readonly string[] =>
    ips
      .filter((ip) => {
        if (ip["interface"] === undefined || ip["interface"] === null) return true;
        const entry = interfaces[integerOf(ip["interface"]) ?? -1];
        return entry !== undefined && fits(entry);
      })
      .flatMap((ip) => stringAt(ip, "address")?.split("/")[0] ?? [])
      .filter((address) => isIP(address) !== 0 && !/^(?:127\.|::1$)/.test(address));
  const inSandbox = (entry: JsonObject): boolean => (stringAt(entry, "sandbox") ?? "") !== "";
  const strict = on((entry) => inSandbox(entry) && entry["name"] === ifName);
  const found = strict.length > 0 ? strict : on((entry) => inSandbox(entry) || entry["name"] === ifName);
  return [...new Set(found)].sort((left, right) => isIP(left) - isIP(right));
}

type Shape = "families" | "versioned" | "plain";

function shapeOf(version: string): Shape {
  if (!isAtLeast(version, "0.3.0")) return "families";
  return isAtLeast(version, "1.0.0") ? "plain" : "versioned";
}

/** The newest shape, which can hold all others. */
interface CommonForm {
  readonly interfaces: readonly JsonObject[];
  readonly ips: readonly JsonObject[];
  readonly routes: readonly JsonObject[];
  readonly dns: Json | undefined;
}

function commonForm(result: JsonObject): CommonForm {
  const { dns } = result;
  // The loopback plugin prints the new shape with the old version of its configuration: the content decides.
  if (isList(result["ips"])) {
    const ips = objectsIn(result["ips"]).map(({ version: _version, ...ip }) => ip);
    return { interfaces: objectsIn(result["interfaces"]), ips, routes: objectsIn(result["routes"]), dns };
  }
  const families = [result["ip4"], result["ip6"]].filter(isObject);
  return {
    interfaces: objectsIn(result["interfaces"]),
    ips: families.map((family) => withoutMissing({ address: family["ip"], gateway: family["gateway"] })),
    // `routes` at the top belongs to the newer shape.
    routes: [...families.flatMap((family) => objectsIn(family["routes"])), ...objectsIn(result["routes"])],
    dns,
  };
}

function toFamilies({ ips, routes, dns }: CommonForm, version: string): JsonObject {
  const family = (wanted: "4" | "6"): JsonObject | undefined => {
    const first = ips.find((ip) => familyOf(ip["address"]) === wanted);
    if (first === undefined) return undefined;
    const own = routes.filter((route) => familyOf(route["dst"]) === wanted).map(plainRoute);
    return withoutMissing({
      ip: first["address"],
      gateway: first["gateway"],
      routes: own.length === 0 ? undefined : own,
    });
  };
  const [ip4, ip6] = [family("4"), family("6")];
  if (ip4 === undefined && ip6 === undefined) throw problem("cannot convert: no valid IP addresses");
  return withoutMissing({ cniVersion: version, ip4, ip6, dns });
}

function toList(form: CommonForm, version: string, ip: (ip: JsonObject) => JsonObject): JsonObject {
  const { interfaces, ips, routes, dns } = form;
  const old = !isAtLeast(version, "1.1.0");
  return withoutMissing({
    cniVersion: version,
    interfaces: interfaces.length === 0 ? undefined : old ? interfaces.map(plainInterface) : interfaces,
    ips: ips.length === 0 ? undefined : ips.map(ip),
    routes: routes.length === 0 ? undefined : old ? routes.map(plainRoute) : routes,
    dns,
  });
}

/** Without the members that 1.1.0 added. */
function plainRoute({ dst, gw }: JsonObject): JsonObject {
  return withoutMissing({ dst, gw });
}

function plainInterface({ name, mac, sandbox }: JsonObject): JsonObject {
  return withoutMissing({ name, mac, sandbox });
}

function familyOf(address: Json | undefined): "4" | "6" | undefined {
  const family = typeof address === "string" ? isIP(address.split("/")[0] ?? "") : 0;
  return family === 4 ? "4" : family === 6 ? "6" : undefined;
}

function objectsIn(value: Json | undefined): readonly JsonObject[] {
  return isList(value) ? value.filter(isObject) : [];
}

function withoutMissing(members: Readonly<Record<string, Json | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(members).filter((member): member is [string, Json] => member[1] !== undefined),
  );
}

function problem(reason: string): ShimError {
  return new ShimError("unknown", reason);
}

function quote(text: string): string {
  return JSON.stringify(text.length <= 500 ? text : `${text.slice(0, 500)}...`);
}
