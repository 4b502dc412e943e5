/** An example CNI configuration for nodes without one. The first screen offers it; a flag writes it. */
import { join } from "node:path";
import { readConfigurationFiles } from "../../network/libcni/configuration-files.js";
import { PluginInvoker } from "../../network/libcni/invoke-plugin.js";
import { PluginVersions } from "../../network/libcni/versions.js";
import {
  exampleBridges,
  exampleCidrs,
  exampleFileName,
  exampleForPlugins,
  writeExampleConflist,
} from "../../network/example/example-conflist.js";
import { findFreeBridge, findFreePlace, readNodeRanges } from "../../network/example/free-range.js";
import { parsePodSubnets } from "../../network/pod-cidrs.js";
import { withDeadline } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Config } from "../config/resolve.js";

export type ExampleSettings = Pick<
  Config,
  "networkPlugin" | "cniConfDir" | "cniBinDirs" | "podCidrs" | "writeExampleCniConfig"
>;

/** A list for a node without configuration files, or the reason why there is none. */
export interface NetworkOffer {
  /** Path of the new file. */
  readonly path: string;
  readonly list: { readonly text: string } | { readonly problem: string };
}

const flag = "--write-example-cni-config";
/** Timeout of VERSION of the plugins, which takes milliseconds. */
const timeoutMs = 10_000;

/**
 * Writes the example if the flag is set, and returns a line for the first screen; undefined without the flag.
 * Never changes an existing configuration, so that the flag can stay in a unit file. Throws when a needed
 * example cannot be written.
 */
export async function writeExampleNetwork(
  settings: ExampleSettings,
  log: Pick<Logger, "info" | "warn" | "debug">,
): Promise<string | undefined> {
  const { networkPlugin, cniConfDir, writeExampleCniConfig } = settings;
  if (!writeExampleCniConfig) return undefined;
  if (networkPlugin !== "auto" && networkPlugin !== "cni") {
    log.warn({ networkPlugin }, `${flag} has no effect with this network plugin`);
    return `not written: ${networkPlugin} does not read it`;
  }
  try {
    const [present] = await readConfigurationFiles(cniConfDir);
    if (present !== undefined) return keep(present.path, log);
    const path = await writeExampleConflist(cniConfDir, await exampleText(settings, log));
    log.info({ path }, "wrote the example of a CNI configuration");
    return `wrote ${path}`;
  } catch (error) {
    // Another program wrote a configuration meanwhile.
    if (isKind(error, "conflict")) return keep(messageOf(error), log);
    throw ShimError.from(error).within(flag);
  }
}

/** The offer for a node with the plugin `cni` and without configuration; undefined when there are files. */
export async function offerExampleNetwork(
  settings: ExampleSettings,
  log: Pick<Logger, "debug">,
): Promise<NetworkOffer | undefined> {
  const { cniConfDir } = settings;
  try {
    // The user must fix invalid files. Another file could take precedence over the fixed files.
    if ((await readConfigurationFiles(cniConfDir)).length > 0) return undefined;
  } catch {
    // notReadyReason() already reports the unreadable directory.
    return undefined;
  }
  const path = join(cniConfDir, exampleFileName);
  try {
    return { path, list: { text: await exampleText(settings, log) } };
  } catch (error) {
    return { path, list: { problem: messageOf(error) } };
  }
}

function keep(present: string, log: Pick<Logger, "info">): string {
  log.info({ present }, "a CNI configuration is there, the example is not written");
  return `not written: there is ${present}`;
}

async function exampleText(
  { cniBinDirs: binDirs, podCidrs }: ExampleSettings,
  log: Pick<Logger, "debug">,
): Promise<string> {
  const invoker = new PluginInvoker({ binDirs, log });
  const versions = new PluginVersions(invoker);
  try {
    const { bridge, cidrs } = await placeFor(podCidrs);
    return await withDeadline(undefined, timeoutMs, "ask CNI plugins for versions", (signal) =>
      exampleForPlugins({ podCidrs: cidrs, bridge }, { invoker, versions }, signal),
    );
  } catch (error) {
    throw ShimError.from(error).within(`make a CNI configuration of the plugins in ${binDirs.join(", ")}`);
  }
}

/** A given pod CIDR is used even if the node already uses its addresses. */
async function placeFor(
  podCidrs: readonly string[],
): Promise<{ readonly bridge: string; readonly cidrs: readonly string[] }> {
  const taken = await readNodeRanges();
  if (podCidrs.length === 0) {
    const { bridge, cidr } = findFreePlace(exampleBridges, exampleCidrs, taken);
    return { bridge, cidrs: [cidr] };
  }
  const ipv4 = parsePodSubnets(podCidrs).find(({ family }) => family === "ipv4")?.cidr;
  return { bridge: findFreeBridge(exampleBridges, ipv4, taken), cidrs: podCidrs };
}
