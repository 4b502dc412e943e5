import { stat } from "node:fs/promises";
import { ShimError } from "../shim/base/errors.js";
import type { Logger } from "../shim/base/log.js";
import type { NetworkPlugin } from "../shim/ports/network-plugin.js";
import { LockedNetworkPlugin } from "./locked-plugin.js";
import { NoopNetworkPlugin } from "./noop/noop-plugin.js";

export interface NetworkSelection {
  /** `--network-plugin`: undefined when it was not given. */
  readonly name: string | undefined;
  readonly cniConfDir: string;
}

/** Values of `--network-plugin`; the empty one means no-op. */
const known = ["cni", "kubenet", "no-op"] as const;

/** The plugin that the flag names, or the fallback, with the reason for the choice. */
export async function selectNetworkPlugin(selection: NetworkSelection, log: Logger): Promise<NetworkPlugin> {
  const { name, cniConfDir } = selection;
  switch (name) {
    case "":
    case "no-op":
    case "noop":
    case "kubernetes.io/no-op":
      return new LockedNetworkPlugin(new NoopNetworkPlugin(`--network-plugin=${name}`, log));
    case undefined: {
      const configured = await isDirectory(cniConfDir);
      const reason = configured
        ? `no --network-plugin given; "${cniConfDir}" exists, but cni is not built yet`
        : `no --network-plugin given and "${cniConfDir}" does not exist`;
      return new LockedNetworkPlugin(new NoopNetworkPlugin(reason, log));
    }
    case "cni":
    case "kubenet":
      throw new ShimError("unsupported", `--network-plugin=${name}: this version has only the no-op plugin`);
    default:
      throw new ShimError("invalid", `--network-plugin=${name}: unknown, the plugins are ${known.join(", ")}`);
  }
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true;
}
