/** Networks of pods as dockershim and cri-dockerd left them: addresses, caches of libcni, rules of host ports. */
import assert from "node:assert/strict";
import { access, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { hostPortChainName } from "../../src/network/hostport/legacy-chains.js";
import { runCommand } from "../../src/network/iptables/run-command.js";
import type { PortMapping } from "../../src/domain/sandbox.js";
import { command, feed } from "../integration/kubenet-support.js";
import { inspectContainer } from "./docker.js";
import { pluginDirs } from "./isolated-engine.js";

const never = new AbortController().signal;
export const kubenetCidr = "10.183.0.0/24";
/** Where libcni keeps results unless it is told otherwise. */
export const usualCacheDirectory = "/var/lib/cni/cache";

export interface LegacyNetwork {
  readonly plugin: "kubenet" | "cni";
  readonly network: string;
  readonly bridge: string;
  /** As dockershim gave it to the bridge plugin. */
  readonly configuration: Readonly<Record<string, unknown>>;
}

const ipam = (subnet: string): object => ({
  type: "host-local",
  ranges: [[{ subnet }]],
  routes: [{ dst: "0.0.0.0/0" }],
});

export const legacyNetworks = {
  kubenet: {
    plugin: "kubenet",
    network: "kubenet",
    bridge: "cbr0",
    configuration: {
      ...{ cniVersion: "0.1.0", name: "kubenet", type: "bridge", bridge: "cbr0", mtu: 1460, addIf: "eth0" },
      ...{ isGateway: true, ipMasq: false, hairpinMode: false, ipam: ipam(kubenetCidr) },
    },
  },
  cni: {
    plugin: "cni",
    network: "old",
    bridge: "cni-old0",
    configuration: {
      ...{ cniVersion: "0.3.1", name: "old", type: "bridge", bridge: "cni-old0", isGateway: true },
      ipam: ipam("10.184.0.0/24"),
    },
  },
} as const satisfies Readonly<Record<string, LegacyNetwork>>;

/** The list of `--cni-conf-dir` for a network. */
export function networkList({ configuration }: LegacyNetwork): string {
  const { cniVersion, name, ...plugin } = configuration;
  return JSON.stringify({ cniVersion, name, plugins: [plugin] });
}

/**
 * Gives the sandbox its network, and writes the result into a cache of libcni unless `cacheDirectory` is
 * undefined. Answers the address.
 */
export async function addToNetwork(
  { network, configuration }: LegacyNetwork,
  id: string,
  cacheDirectory: string | undefined,
): Promise<string> {
  const netns = `/proc/${(await inspectContainer(id))?.State.Pid ?? 0}/ns/net`;
  const environment = {
    ...{ CNI_COMMAND: "ADD", CNI_CONTAINERID: id, CNI_NETNS: netns, CNI_IFNAME: "eth0" },
    ...{ CNI_PATH: pluginDirs.join(":"), CNI_ARGS: "" },
  };
  const words = Object.entries(environment).map(([key, value]) => `${key}=${value}`);
  const config = JSON.stringify(configuration);
  const exit = await runCommand("env", [...words, await pluginPath("bridge")], {
    signal: never,
    input: config,
  });
  assert.equal(exit.exitCode, 0, exit.stdout);
  const result = JSON.parse(exit.stdout) as { ip4?: { ip: string }; ips?: { address: string }[] };
  if (cacheDirectory !== undefined) {
    const results = join(cacheDirectory, "results");
    await mkdir(results, { recursive: true, mode: 0o700 });
    const entry = {
      ...{ kind: "cniCacheV1", containerId: id, ifName: "eth0", networkName: network, cniArgs: null },
      config: Buffer.from(config).toString("base64"),
      result,
    };
    await writeFile(join(results, `${network}-${id}-eth0`), JSON.stringify(entry), { mode: 0o600 });
  }
  return (result.ip4?.ip ?? result.ips?.[0]?.address ?? "").split("/")[0] ?? "";
}

async function pluginPath(name: string): Promise<string> {
  for (const directory of pluginDirs) {
    const path = join(directory, name);
    const found = await access(path).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  throw new Error(`no plugin ${name}`);
}

export interface HostPort {
  readonly id: string;
  /** `POD_NAMESPACE` */
  readonly pod: string;
  readonly address: string;
  readonly port: Pick<PortMapping, "hostPort" | "containerPort" | "protocol">;
}

/** As kubenet of dockershim 1.20 writes it; its chains have their names from it. */
export async function openHostPort({ id, pod, address, port }: HostPort): Promise<void> {
  const { hostPort, containerPort, protocol } = port;
  const chain = hostPortChainName(id, { hostPort, protocol });
  const comment = `-m comment --comment "${pod} hostport ${hostPort}"`;
  const table = await command("iptables-save", "-t", "nat");
  const isFirst = !table.includes(":KUBE-HOSTPORTS");
  const portals =
    '-m comment --comment "kube hostport portals" -m addrtype --dst-type LOCAL -j KUBE-HOSTPORTS';
  await feed(
    [
      "*nat",
      ...(isFirst ? [":KUBE-HOSTPORTS - [0:0]", ":KUBE-MARK-MASQ - [0:0]"] : []),
      `:${chain} - [0:0]`,
      ...(isFirst ? [`-A PREROUTING ${portals}`, `-A OUTPUT ${portals}`] : []),
      `-I KUBE-HOSTPORTS ${comment} -m ${protocol} -p ${protocol} --dport ${hostPort} -j ${chain}`,
      `-A ${chain} ${comment} -s ${address} -j KUBE-MARK-MASQ`,
      `-A ${chain} ${comment} -m ${protocol} -p ${protocol} -j DNAT --to-destination=${address}:${containerPort}`,
      "COMMIT",
      "",
    ].join("\n"),
    ...(["iptables-restore", "--noflush"] as const),
  );
}
