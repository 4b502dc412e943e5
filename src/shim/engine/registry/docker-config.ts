/** Docker's configuration files with credentials: config.json and its predecessor .dockercfg. */
import { ShimError } from "../../lib/errors.js";
import type { RegistryCredentials } from "../../ports/engine.js";
import { asObject, type Json, labelsOf, objectOf, textOf } from "../http/json.js";
import { normalizeRegistryKey } from "./registry-match.js";

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
  if (colon === -1) {
    throw new ShimError("invalid", `the "auth" of "${registry}" is not the base64 of user:password`);
  }
  // Old Docker clients padded the password with NULs.
  return { username: text.slice(0, colon), password: text.slice(colon + 1).replace(/\0+$/, "") };
}
