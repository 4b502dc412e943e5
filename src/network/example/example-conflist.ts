/** A network configuration for a single node. */
import { link, rm } from "node:fs/promises";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { createDirectory, namesIn, syncDirectory } from "../../lib/files/directories.js";
import { ShimError } from "../../lib/errors.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import type { PluginInvoker } from "../libcni/invoke-plugin.js";
import { commonVersion, installedOf, type VersionSource } from "../libcni/versions.js";
import {
  bridgePlugins,
  optionalPlugins,
  requiredPlugins,
  type OptionalPlugin,
} from "../kubenet/kubenet-conflist.js";
import { parsePodSubnets } from "../pod-cidrs.js";

export interface ExampleOptions {
  /** Networks of the pods in CIDR form: one, or one of each address family. */
  readonly podCidrs?: readonly string[];
  readonly cniVersion?: string;
  readonly networkName?: string;
  readonly bridge?: string;
  /** Which of the plugins beside `bridge` are in the list; all when not given. */
  readonly plugins?: readonly OptionalPlugin[];
}

/**
 * Rarely used, and not the default of a known container program: Docker has 172.17.0.0/12 and 192.168.0.0/16,
 * Podman 10.88.0.0/15, nerdctl 10.4, k3s 10.42, CRI-O 10.85, Services 10.96.0.0/12, Kubernetes' networks
 * 10.244 and 10.128.0.0/14. `findFreePlace` chooses one that is free on the node.
 */
export const exampleCidrs = ["10.213.0.0/16", "10.214.0.0/16", "10.215.0.0/16", "10.59.0.0/16"] as const;
/** The usual name, and one for nodes where something else has a bridge of that name. */
export const exampleBridges = ["cni0", "dockershim0"] as const;
export const exampleFileName = "10-dockershim.conflist";

/** A bridge with addresses for pods of one node, host ports, bandwidth limits. Throws `invalid`. */
export function exampleConflist(options: ExampleOptions = {}): string {
  const { podCidrs = [exampleCidrs[0]], cniVersion = "0.4.0", plugins = optionalPlugins } = options;
  const { networkName = "dockershim", bridge = exampleBridges[0] } = options;
  const subnets = parsePodSubnets(podCidrs);
  const members = { bridge, isGateway: true, ipMasq: true, hairpinMode: true };
  const list = { cniVersion, name: networkName, plugins: bridgePlugins(members, subnets, plugins) };
  return `${JSON.stringify(list, undefined, 2)}\n`;
}

/** With the installed plugins and the newest version of all; `unavailable` without the required ones. */
export async function exampleForPlugins(
  options: Pick<ExampleOptions, "podCidrs" | "networkName" | "bridge">,
  { invoker, versions }: { readonly invoker: Pick<PluginInvoker, "find">; readonly versions: VersionSource },
  signal: AbortSignal,
): Promise<string> {
  const found = await installedOf(requiredPlugins, invoker);
  const missing = requiredPlugins.filter((type) => !found.includes(type));
  if (missing.length > 0) {
    throw new ShimError("unavailable", `CNI plugins [${missing.join(" ")}]: not installed`);
  }
  const plugins = await installedOf(optionalPlugins, invoker);
  const version = await commonVersion([...requiredPlugins, ...plugins], versions, signal);
  if (version.cniVersion === undefined) throw new ShimError("unavailable", version.problem);
  return exampleConflist({ ...options, plugins, cniVersion: version.cniVersion });
}

/** Writes the list into the directory, made when missing. `conflict` when a configuration is there. */
export async function writeExampleConflist(directory: string, text: string): Promise<string> {
  const present = (await namesIn(directory)).filter((name) => /\.(?:conf|conflist|json)$/.test(name));
  if (present.length > 0) {
    const files = present.map((name) => JSON.stringify(join(directory, name))).join(", ");
    throw new ShimError(
      "conflict",
      `write a CNI configuration to ${JSON.stringify(directory)}: there is ${files}`,
    );
  }
  await createDirectory(directory, 0o755);
  const path = join(directory, exampleFileName);
  const whole = join(directory, `.dockershim-example-${randomBytes(8).toString("hex")}`);
  await writeFileAtomically(whole, text, { mode: 0o644, temporaryPrefix: ".dockershim-" });
  try {
    // Unlike a rename, a link fails when the file exists.
    await link(whole, path);
    await syncDirectory(directory);
  } catch (error) {
    if (hasCode(error, "EEXIST")) throw new ShimError("conflict", `write ${JSON.stringify(path)}: it exists`);
    throw fileError("write", path, error);
  } finally {
    await rm(whole, { force: true });
  }
  return path;
}
