import { stat } from "node:fs/promises";
import { ShimError, unreachable } from "../shim/base/errors.js";
import type { Logger } from "../shim/base/log.js";
import type { NetworkPlugin } from "../shim/ports/network-plugin.js";
import { LockedNetworkPlugin } from "./locked-plugin.js";
import { NoopNetworkPlugin } from "./noop/noop-plugin.js";

export interface NetworkSelection {
  /** Value of `--network-plugin`. */
  readonly name: "auto" | "no-op" | "cni" | "kubenet";
  /** Value of `--cni-conf-dir`. */
  readonly cniConfDir: string;
}

/** The plugin that the flag names, or the one that suits this node, with the reason for the choice. */
export async function selectNetworkPlugin(
  { name, cniConfDir }: NetworkSelection,
  log: Logger,
): Promise<NetworkPlugin> {
  switch (name) {
    case "no-op":
      return noop(`--network-plugin=${name}`, log);
    case "auto": {
      if (!(await isDirectory(cniConfDir)))
        return noop(`"${cniConfDir}" does not exist, so there is no CNI`, log);
      const reason = `"${cniConfDir}" exists, but this version has no CNI plugin yet`;
      log.warn({ path: cniConfDir }, `pods get addresses of Docker's bridge: ${reason}`);
      return noop(reason, log);
    }
    case "cni":
    case "kubenet":
      throw new ShimError(
        "unsupported",
        `--network-plugin=${name}: this version has only the plugin "no-op"`,
      );
    default:
      return unreachable(name);
  }
}

function noop(reason: string, log: Logger): NetworkPlugin {
  return new LockedNetworkPlugin(new NoopNetworkPlugin({ reason, log }));
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true;
}
