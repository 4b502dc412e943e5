/** Checks that the plugins of a list are installed and support its version. */
import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { withVersion, type NetworkList } from "./configuration.js";
import type { PluginInvoker } from "./invoke-plugin.js";
import { isObject, stringAt, type JsonObject } from "../../lib/json/exact-json.js";
import type { PluginVersions } from "./versions.js";

const versionTimeoutMs = 10_000;

export interface Validation {
  /** The list at the newest of its versions that all its plugins support; absent when there is a problem. */
  readonly network?: NetworkList;
  readonly problems: readonly string[];
  /** A plugin did not answer: the next validation may succeed although no file has changed. */
  readonly worthRetry: boolean;
}

/** Asks all plugins at once, each for at most 10 s. Never throws. */
export async function validateList(
  list: NetworkList,
  { invoker, versions }: { readonly invoker: Pick<PluginInvoker, "find">; readonly versions: PluginVersions },
  signal: AbortSignal,
): Promise<Validation> {
  const problems: string[] = [];
  let worthRetry = false;
  const complain = (error: unknown): void => {
    problems.push(messageOf(error));
    const missing = error instanceof ShimError && error.fields["command"] === undefined;
    if (!missing) worthRetry = true;
  };
  const types = [...new Set(list.plugins.map(({ type }) => type))];
  const answers = await Promise.allSettled(
    types.map((type) =>
      withDeadline(signal, versionTimeoutMs, "ask for versions", (own) => versions.supportedBy(type, own)),
    ),
  );
  const supported = new Map<string, readonly string[]>();
  for (const [index, type] of types.entries()) {
    const answer = answers[index];
    if (answer?.status === "fulfilled") supported.set(type, answer.value);
    else complain(answer?.reason);
  }
  for (const type of delegatedTypes(list)) await invoker.find(type).catch(complain);
  if (problems.length > 0) return { problems, worthRetry };
  // Compared literally, as in the Go library.
  const version = list.versions.find((each) => types.every((type) => supported.get(type)?.includes(each)));
  if (version !== undefined) return { network: withVersion(list, version), problems, worthRetry };
  for (const [type, known] of supported) {
    if (list.versions.some((each) => known.includes(each))) continue;
    const wanted = list.versions.map((each) => JSON.stringify(each)).join(" or ");
    problems.push(`plugin ${type} does not support config version ${wanted} (only ${known.join(", ")})`);
  }
  if (problems.length === 0) problems.push(`its plugins [${types.join(" ")}] have no version in common`);
  return { problems, worthRetry };
}

/** All binaries that the list names, its plugins' own helpers included. */
export function binariesOf(list: NetworkList): readonly string[] {
  return [...new Set([...list.plugins.map(({ type }) => type), ...delegatedTypes(list)])];
}

/** `ipam`, and `delegate` of meta-plugins: must be installed; who runs them checks their versions. */
function delegatedTypes({ plugins }: NetworkList): readonly string[] {
  const found = new Set<string>();
  const collect = (configuration: JsonObject): void => {
    for (const key of ["ipam", "delegate"]) {
      const helper = configuration[key];
      if (!isObject(helper)) continue;
      const type = stringAt(helper, "type") ?? "";
      if (type !== "") found.add(type);
      collect(helper);
    }
  };
  for (const { configuration } of plugins) collect(configuration);
  return [...found];
}
