/**
 * Docker's configuration files with credentials, config.json and the older .dockercfg, and which entries
 * apply to an image by the kubelet's rules.
 */
import { ShimError } from "../../lib/errors.js";
import type { RegistryCredentials } from "../ports/engine.js";
import { asObject, type Json, labelsOf, objectOf, textOf } from "../../lib/json/json-readers.js";

export interface DockerConfigEntry {
  /** Registry with or without a path, normalised. */
  readonly key: string;
  readonly credentials: RegistryCredentials;
}

export interface DockerConfig {
  readonly entries: readonly DockerConfigEntry[];
  /** Names of credential helpers by normalised registry. */
  readonly helpers: ReadonlyMap<string, string>;
  /** The helper for all other registries. */
  readonly store?: string;
}

/** `config.json`. Throws `invalid`, without quoting anything, when the file is bad anywhere. */
export function parseDockerConfig(text: string): DockerConfig {
  const json = parseObject(text);
  const helpers = Object.entries(labelsOf(json, "credHelpers"));
  const store = textOf(json, "credsStore");
  return {
    entries: toEntries(objectOf(json, "auths")),
    helpers: new Map(helpers.map(([registry, name]) => [normalizeRegistryKey(registry), name])),
    ...(store === "" ? {} : { store }),
  };
}

/** `.dockercfg`: what config.json has in `auths`. */
export function parseLegacyDockerConfig(text: string): DockerConfig {
  return { entries: toEntries(parseObject(text)), helpers: new Map() };
}

function parseObject(text: string): Json {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // Not as the cause: since Node 20 the error quotes the text.
    throw new ShimError("invalid", "not JSON");
  }
  if (typeof json !== "object" || json === null || Array.isArray(json))
    throw new ShimError("invalid", "not an object");
  return asObject(json);
}

/** Without the empty entries that stand for "ask the credential store". */
function toEntries(auths: Json): readonly DockerConfigEntry[] {
  return Object.entries(auths).flatMap(([registry, entry]) => {
    const credentials = toCredentials(registry, asObject(entry));
    const isEmpty = Object.values(credentials).every((value) => value === "");
    return isEmpty ? [] : [{ key: normalizeRegistryKey(registry), credentials }];
  });
}

/** `auth` counts more than the fields that it combines. */
function toCredentials(registry: string, entry: Json): RegistryCredentials {
  const identityToken = textOf(entry, "identitytoken");
  const registryToken = textOf(entry, "registrytoken");
  const auth = textOf(entry, "auth").trim();
  return {
    ...(auth === ""
      ? { username: textOf(entry, "username"), password: textOf(entry, "password") }
      : decodeAuth(registry, auth)),
    ...(identityToken === "" ? {} : { identityToken }),
    ...(registryToken === "" ? {} : { registryToken }),
  };
}

function decodeAuth(
  registry: string,
  auth: string,
): { readonly username: string; readonly password: string } {
  const text = /^[A-Za-z0-9+/]+={0,2}$/.test(auth) ? Buffer.from(auth, "base64").toString("utf8") : "";
  const colon = text.indexOf(":");
  if (colon === -1)
    throw new ShimError("invalid", `the "auth" of "${registry}" is not the base64 of user:password`);
  // Old Docker clients padded the password with NULs.
  return { username: text.slice(0, colon), password: text.slice(colon + 1).replace(/\0+$/, "") };
}

/** Docker Hub's name in configuration files, by which `docker login` files its credentials. */
const hubKey = "index.docker.io";

/** `https://index.docker.io/v1/` → `index.docker.io`: without scheme, API version and closing slash. */
export function normalizeRegistryKey(key: string): string {
  const bare = key.replace(/^[a-z][a-z0-9+.-]*:\/\//i, "");
  const slash = bare.indexOf("/");
  if (slash === -1) return bare;
  const host = bare.slice(0, slash);
  const path = bare.slice(slash).replace(/^\/v[12](?=\/)/, "");
  return path === "/" ? host : host + path;
}

/**
 * The entries for an image, those with the longest path first: same port, as many parts of the host name,
 * each part a shell glob, and a path that the image's begins with. When there are none, those of Docker Hub
 * for its images. `repository` has its registry: `docker.io/library/busybox`. Keys are normalised.
 */
export function matchingEntries<T extends { readonly key: string }>(
  entries: readonly T[],
  repository: string,
): readonly T[] {
  const ordered = entries.toSorted((a, b) => (a.key < b.key ? 1 : a.key > b.key ? -1 : 0));
  const matches = ordered.filter((entry) => keyMatches(entry.key, repository));
  if (matches.length > 0 || !isHubImage(repository)) return matches;
  return ordered.filter((entry) => entry.key === hubKey);
}

export function isHubImage(repository: string): boolean {
  return repository.startsWith("docker.io/");
}

function keyMatches(key: string, repository: string): boolean {
  const glob = splitKey(key);
  const target = splitKey(repository);
  return (
    glob.port === target.port &&
    glob.hostParts.length === target.hostParts.length &&
    target.path.startsWith(glob.path) &&
    glob.hostParts.every((part, index) => globMatches(part, target.hostParts[index] ?? ""))
  );
}

function splitKey(key: string): {
  readonly hostParts: readonly string[];
  readonly port: string;
  readonly path: string;
} {
  const slash = key.indexOf("/");
  const authority = slash === -1 ? key : key.slice(0, slash);
  const [, host = authority, port = ""] = /^(.*):(\d+)$/.exec(authority) ?? [];
  return { hostParts: host.split("."), port, path: slash === -1 ? "" : key.slice(slash) };
}

/** `*`, `?` and `[a-z]`. A malformed pattern matches nothing. */
function globMatches(pattern: string, text: string): boolean {
  const source = pattern.replaceAll(/\[\^?[^\][\\]+\]|[\s\S]/g, (token) => {
    if (token === "*") return ".*";
    if (token === "?") return ".";
    return token.length > 1 ? token : token.replace(/[$()*+./?[\\\]^{|}-]/, "\\$&");
  });
  try {
    return new RegExp(`^${source}$`, "s").test(text);
  } catch {
    return false; // A range that runs backwards.
  }
}
