/** Versions that the installed plugins support, asked once per binary. */
import { messageOf, ShimError, isKind, succeeds } from "../../lib/errors.js";
import { LruMap } from "../../lib/lru-map.js";
import { nodeCall, type PluginInvoker } from "./invoke-plugin.js";
import { isList, isObject, parseJson, stringAt } from "../../lib/json/exact-json.js";

/** Versions of the CNI specification: which exist, and which the installed plugins support. */

/** Versions that this program supports, oldest first. */
export const knownVersions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

export const newestVersion = "1.1.0";

/** The meaning of a missing or empty `cniVersion`. */
export const oldestVersion = "0.1.0";

export function isKnownVersion(version: string): boolean {
  return (knownVersions as readonly string[]).includes(version);
}

/** Negative when `left` is older than `right`. Parts that are no numbers count as 0. */
export function compareVersions(left: string, right: string): number {
  const [leftParts, rightParts] = [left, right].map(parts);
  for (let index = 0; index < 3; index += 1) {
    const difference = (leftParts?.[index] ?? 0) - (rightParts?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

export function isAtLeast(version: string, least: string): boolean {
  return compareVersions(version, least) >= 0;
}

function parts(version: string): readonly number[] {
  return version.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : 0));
}

const binariesKept = 200;

export class PluginVersions {
  readonly #known = new LruMap<string, readonly string[]>(binariesKept);

  constructor(private readonly invoker: PluginInvoker) {}

  /** Throws as `PluginInvoker.run`, and `unknown` for an invalid answer. */
  async supportedBy(type: string, signal: AbortSignal): Promise<readonly string[]> {
    const { fingerprint } = await this.invoker.find(type);
    const known = this.#known.get(fingerprint);
    if (known !== undefined) return known;
    const versions = await this.#ask(type, signal);
    this.#known.set(fingerprint, versions);
    return versions;
  }

  async #ask(type: string, signal: AbortSignal): Promise<readonly string[]> {
    let reply: string;
    try {
      reply = await this.invoker.run(nodeCall(type, "VERSION", { cniVersion: newestVersion }), signal);
    } catch (error) {
      // The answer of plugins that are older than the command.
      if (error instanceof ShimError && error.fields["cniMessage"] === "unknown CNI_COMMAND: VERSION") {
        return [oldestVersion];
      }
      throw error;
    }
    return versionsIn(type, reply);
  }
}

function versionsIn(type: string, reply: string): readonly string[] {
  const complain = (reason: string): never => {
    throw new ShimError("unknown", `CNI plugin ${JSON.stringify(type)} VERSION: ${reason}`, { plugin: type });
  };
  let value;
  try {
    value = parseJson(reply);
  } catch (error) {
    return complain(`the answer is no JSON: ${messageOf(error)}`);
  }
  if (!isObject(value)) return complain("the answer is no JSON object");
  const supportedVersions = value["supportedVersions"] ?? [];
  const isEmpty = isList(supportedVersions) && supportedVersions.length === 0;
  if (isEmpty && stringAt(value, "cniVersion") === "0.2.0") return ["0.1.0", "0.2.0"];
  if (!isList(supportedVersions) || isEmpty) return complain(`the answer has no "supportedVersions"`);
  return supportedVersions.filter((version) => typeof version === "string");
}

export interface VersionSource {
  supportedBy(type: string, signal: AbortSignal): Promise<readonly string[]>;
}

/** From this version on DEL gets the result of ADD, without which some plugins leave rules behind. */
const leastVersion = "0.4.0";

/** Those of `types` that are installed. */
export async function installedOf<T extends string>(
  types: readonly T[],
  invoker: Pick<PluginInvoker, "find">,
): Promise<readonly T[]> {
  const found = await Promise.all(types.map((type) => succeeds(invoker.find(type))));
  return types.filter((_, index) => found[index]);
}

/** The newest version that all of `types` support. Never throws: a failure is the `problem`. */
export async function commonVersion(
  types: readonly string[],
  versions: VersionSource,
  signal: AbortSignal,
): Promise<{ readonly cniVersion: string } | { readonly cniVersion?: undefined; readonly problem: string }> {
  let common: readonly string[] | undefined;
  for (const type of types) {
    try {
      const supported = await versions.supportedBy(type, signal);
      common = common === undefined ? supported : common.filter((version) => supported.includes(version));
    } catch (error) {
      return {
        problem: isKind(error, "timeout") ? `CNI plugin "${type}" does not answer` : messageOf(error),
      };
    }
  }
  const newest = (common ?? [])
    .filter((version) => isKnownVersion(version) && isAtLeast(version, leastVersion))
    .sort(compareVersions)
    .at(-1);
  if (newest !== undefined) return { cniVersion: newest };
  return {
    problem: `the CNI plugins [${types.join(" ")}] have no version from ${leastVersion} on in common`,
  };
}
