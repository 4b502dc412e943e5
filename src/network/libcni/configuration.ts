/** A list of plugins, or a single plugin that becomes a list, as administrators write them. */
import { messageOf, ShimError } from "../../lib/errors.js";
import {
  formatJson,
  isList,
  isObject,
  parseJson,
  type Json,
  type JsonObject,
} from "../../lib/json/exact-json.js";
import { compareVersions, isKnownVersion, oldestVersion } from "./versions.js";

export interface PluginConfiguration {
  /** Name of the binary. */
  readonly type: string;
  /** Names that the plugin declares `true` in `capabilities`. */
  readonly capabilities: ReadonlySet<string>;
  /** The whole object, with the keys that only the plugin knows. */
  readonly configuration: JsonObject;
}

export interface NetworkList {
  readonly name: string;
  /** The newest of `versions`. */
  readonly cniVersion: string;
  /** What list and program know, newest first; 0.1.0 for none, an unknown one when alone. */
  readonly versions: Versions;
  readonly disableCheck: boolean;
  readonly disableGc: boolean;
  /** False: the directory named after the network may hold further plugins. */
  readonly loadOnlyInlinedPlugins: boolean;
  readonly plugins: readonly PluginConfiguration[];
  /** The list as JSON, drop-in plugins included, as it is written to the cache. */
  readonly text: string;
  /** The file or other origin, for messages. */
  readonly source: string;
}

type Versions = readonly [newest: string, ...others: string[]];

/** What the specification and the plugins permit as a network's name. */
const nameForm = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

/** Valid without plugins until drop-ins were read: `requireUsable`. `invalid` with `source` and position. */
export function parseNetworkList(text: string, source: string): NetworkList {
  return within(source, () => listOf(objectOf(text), text, source));
}

/** A `.conf` or `.json` file as a list of one. Throws as `parseNetworkList`. */
export function parseSinglePlugin(text: string, source: string): NetworkList {
  return within(source, () => {
    const plugin = objectOf(text);
    if (plugin["type"] === undefined && plugin["plugins"] !== undefined) {
      fail(`this is a list of plugins, whose file name must end in ".conflist"`);
    }
    const list: JsonObject = {
      ...(plugin["cniVersion"] === undefined ? {} : { cniVersion: plugin["cniVersion"] }),
      ...(plugin["name"] === undefined ? {} : { name: plugin["name"] }),
      plugins: [plugin],
    };
    return { ...listOf(list, formatJson(list), source), loadOnlyInlinedPlugins: true };
  });
}

/** The list in a cached result, where kubenet of dockershim and cri-dockerd left a single plugin. */
export function parseCachedList(text: string, source: string): NetworkList {
  const isPlugin = within(source, () => objectOf(text)["type"] !== undefined);
  return requireUsable((isPlugin ? parseSinglePlugin : parseNetworkList)(text, source));
}

/** One plugin of a drop-in directory. Throws as `parseNetworkList`. */
export function parseDropIn(text: string, source: string): PluginConfiguration {
  return within(source, () => pluginOf(objectOf(text)));
}

/** `list` with further plugins at its end, also in the text, so that DEL runs the same plugins as ADD. */
export function appendPlugins(list: NetworkList, plugins: readonly PluginConfiguration[]): NetworkList {
  if (plugins.length === 0) return list;
  const all = [...list.plugins, ...plugins];
  const text = formatJson({ ...objectOf(list.text), plugins: all.map(({ configuration }) => configuration) });
  return { ...list, plugins: all, text };
}

/** `list` at one of its versions, also in the text, so that DEL uses the version of ADD. */
export function withVersion(list: NetworkList, cniVersion: string): NetworkList {
  if (list.cniVersion === cniVersion) return list;
  const { cniVersions: _versions, ...members } = objectOf(list.text);
  return { ...list, cniVersion, versions: [cniVersion], text: formatJson({ ...members, cniVersion }) };
}

/** `list`, when it has plugins and a valid name. Throws `invalid`. */
export function requireUsable(list: NetworkList): NetworkList {
  return within(list.source, () => {
    if (list.plugins.length === 0) fail("no plugins in the list");
    if (!isNetworkName(list.name)) {
      fail(`network name ${JSON.stringify(list.name)}: must be letters, digits, "_", "." and "-"`);
    }
    return list;
  });
}

export function isNetworkName(name: string): boolean {
  return nameForm.test(name);
}

/** Capabilities that any plugin of the list declares. */
export function declaredCapabilities(list: NetworkList): ReadonlySet<string> {
  return new Set(list.plugins.flatMap(({ capabilities }) => [...capabilities]));
}

function listOf(list: JsonObject, text: string, source: string): NetworkList {
  const { name, plugins = [] } = list;
  if (typeof name !== "string") fail(name === undefined ? `missing "name"` : `"name" is not a string`);
  if (!isList(plugins)) fail(`"plugins" is not a list`);
  if (list["plugins"] !== undefined && plugins.length === 0) fail(`"plugins" is empty`);
  const versions = versionsOf(list);
  return {
    name,
    cniVersion: versions[0],
    versions,
    disableCheck: flagOf(list, "disableCheck"),
    disableGc: flagOf(list, "disableGC"),
    loadOnlyInlinedPlugins: flagOf(list, "loadOnlyInlinedPlugins"),
    plugins: plugins.map((plugin, index) => {
      if (!isObject(plugin)) fail(`plugin ${index + 1} is not an object`);
      return pluginOf(plugin, ` of plugin ${index + 1}`);
    }),
    text,
    source,
  };
}

function pluginOf(configuration: JsonObject, where = ""): PluginConfiguration {
  const { type, capabilities = null } = configuration;
  if (typeof type !== "string" || type === "") fail(`missing "type"${where}`);
  if (capabilities !== null && !isObject(capabilities)) fail(`"capabilities"${where} is not an object`);
  const declared = Object.entries(capabilities ?? {}).filter(([key, value]) => {
    // The Go library reads null as false.
    if (typeof value !== "boolean" && value !== null)
      fail(`capability ${JSON.stringify(key)}${where} is neither true nor false`);
    return value;
  });
  return { type, capabilities: new Set(declared.map(([key]) => key)), configuration };
}

/** Lists of flannel, Multus, Weave, kube-router and old Cilium name no version, or an empty one. */
function versionsOf(list: JsonObject): Versions {
  const cniVersion = list["cniVersion"] ?? "";
  const cniVersions = list["cniVersions"] ?? [];
  if (typeof cniVersion !== "string") fail(`"cniVersion" is not a string`);
  if (!isList(cniVersions)) fail(`"cniVersions" is not a list`);
  const offered = cniVersions.map((version) => {
    if (typeof version !== "string") fail(`"cniVersions" holds something else than strings`);
    return version;
  });
  // An unknown version is kept only when it is the only one: the validation of the list reports it.
  const usable = [...offered.filter(isKnownVersion), ...(cniVersion === "" ? [] : [cniVersion])];
  const [newest = oldestVersion, ...others] = [...new Set(usable)].sort((left, right) =>
    compareVersions(right, left),
  );
  return [newest, ...others];
}

/** A boolean by the specification; existing lists have strings, too. */
function flagOf(list: JsonObject, key: string): boolean {
  const value = list[key] ?? false;
  if (typeof value === "boolean") return value;
  const word = typeof value === "string" ? value.toLowerCase() : "";
  if (word !== "true" && word !== "false") fail(`"${key}" is neither true nor false`);
  return word === "true";
}

function objectOf(text: string): JsonObject {
  const value: Json = parseJson(text);
  if (!isObject(value)) fail("not a JSON object");
  return value;
}

function fail(reason: string): never {
  throw new ShimError("invalid", reason);
}

function within<T>(source: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    const text = `read network configuration ${JSON.stringify(source)}: ${messageOf(error)}`;
    throw new ShimError("invalid", text, { path: source }, { cause: error });
  }
}
