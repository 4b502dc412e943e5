/** Whether the plugins of a list are installed and speak its version. */
import { deadline } from "../../shim/base/abort.js";
import { messageOf, ShimError } from "../../shim/base/errors.js";
import type { NetworkList } from "./configuration.js";
import type { PluginVersions } from "./plugin-versions.js";

const versionTimeoutMs = 10_000;

export interface Validation {
  readonly problems: readonly string[];
  /** A plugin could not be asked: another try may end otherwise although nothing has changed. */
  readonly worthRetry: boolean;
}

export async function validateList(list: NetworkList, versions: PluginVersions): Promise<Validation> {
  const problems: string[] = [];
  let worthRetry = false;
  for (const type of new Set(list.plugins.map((plugin) => plugin.type))) {
    try {
      const signal = deadline(versionTimeoutMs, `ask for versions`);
      const supported = await versions.supportedBy(type, signal);
      // Literally, as the library compares: there are no ranges of versions.
      if (!supported.includes(list.cniVersion)) {
        const version = JSON.stringify(list.cniVersion);
        problems.push(
          `plugin ${type} does not support config version ${version} (only ${supported.join(", ")})`,
        );
      }
    } catch (error) {
      problems.push(messageOf(error));
      const missing = error instanceof ShimError && error.fields["command"] === undefined;
      if (!missing) worthRetry = true;
    }
  }
  return { problems, worthRetry };
}
