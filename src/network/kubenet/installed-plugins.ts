/** Which plugins are there, and the newest version that all of them speak. */
import { isKind, messageOf } from "../../shim/lib/errors.js";
import type { PluginInvoker } from "../libcni/invoke.js";
import { compareVersions, isAtLeast, isKnownVersion } from "../libcni/versions.js";

export interface VersionSource {
  supportedBy(type: string, signal: AbortSignal): Promise<readonly string[]>;
}

/** From here on DEL is told the result of ADD, without which some plugins leave rules behind. */
const leastVersion = "0.4.0";

/** Those of `types` that are installed. */
export async function installedOf<T extends string>(
  types: readonly T[],
  invoker: Pick<PluginInvoker, "find">,
): Promise<readonly T[]> {
  const found = await Promise.all(
    types.map((type) =>
      invoker.find(type).then(
        () => true,
        () => false,
      ),
    ),
  );
  return types.filter((_, index) => found[index]);
}

/** Never throws: what goes wrong is the problem. */
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
