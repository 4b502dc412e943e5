/** Networks of rehearsed pods, as dockershim 1.20 and cri-dockerd 0.4 make and cache them, in own namespaces. */
import { isIP } from "node:net";
import { join } from "node:path";
import { bandwidthOf, podArguments, portMappingsCapability } from "../../network/cni/capability-arguments.js";
import { bringUpLoopback, loopbackNetworkName } from "../../network/cni/loopback.js";
import { podInterface } from "../../network/cni/cni-plugin.js";
import { createCniParts } from "../../network/cni/create-cni-plugin.js";
import { baseChain, hostPortChainName } from "../../network/hostport/legacy-chains.js";
import { commandError, outputOf, runCommand } from "../../network/iptables/run-command.js";
import { kubenetBridge, kubenetNetworkName } from "../../network/kubenet/kubenet-conflist.js";
import { readConfigurationFiles } from "../../network/libcni/configuration-files.js";
import {
  declaredCapabilities,
  type NetworkList,
  parseNetworkList,
  parseSinglePlugin,
} from "../../network/libcni/configuration.js";
import type { Attachment } from "../../network/libcni/network-list-runner.js";
import { podAddresses } from "../../network/libcni/result.js";
import { NamespaceMode, type PodSandboxConfig } from "../../domain/cri.js";
import type { PortMapping } from "../../domain/sandbox.js";
import { ShimError } from "../../lib/errors.js";
import { namesIn } from "../../lib/files/directories.js";
import type { JsonObject } from "../../lib/json/exact-json.js";
import { silentLogger } from "../../lib/log.js";
import { toPortMappings } from "../../shim/plan/port-bindings.js";
import type { LegacyProgram } from "./legacy-bodies.js";
import type { NetworkPluginName } from "./network-plugins.js";

export interface PodNetworkOptions {
  readonly plugin: Exclude<NetworkPluginName, "no-op">;
  readonly program: LegacyProgram;
  /** With a list for `cni`. */
  readonly confDir: string;
  readonly binDirs: readonly string[];
}

export interface SandboxToAttach {
  readonly id: string;
  /** PID of its first process. */
  readonly pid: number;
  readonly config: PodSandboxConfig;
}

/** What plugins keep of pods. */
const cniDirectory = "/var/lib/cni";
const resultsDirectory = join(cniDirectory, "cache", "results");
/** The range of kubenet; the rehearsal's namespace has no other one. */
export const rehearsalPodCidr = "10.213.0.0/24";
const attachMs = 60_000;

/** As dockershim's kubenet gives it to the bridge plugin. */
const kubenetConfiguration = {
  cniVersion: "0.1.0",
  name: kubenetNetworkName,
  type: "bridge",
  bridge: kubenetBridge,
  mtu: 1460,
  addIf: podInterface,
  isGateway: true,
  ipMasq: false,
  hairpinMode: false,
  ipam: { type: "host-local", ranges: [[{ subnet: rehearsalPodCidr }]], routes: [{ dst: "0.0.0.0/0" }] },
};

/** Both programs give this to the loopback plugin. */
const loopbackConfiguration = {
  cniVersion: "0.2.0",
  name: loopbackNetworkName,
  plugins: [{ type: "loopback" }],
};

export class PodNetworks {
  readonly #cni: ReturnType<typeof createCniParts>;
  #hasHostPorts = false;

  private constructor(
    private readonly options: PodNetworkOptions,
    private readonly list: NetworkList,
  ) {
    const { binDirs } = options;
    this.#cni = createCniParts({ binDirs, cacheDir: join(cniDirectory, "cache"), log: silentLogger() });
  }

  /** Throws `precondition` when the directory has no list that can be read. */
  static async open(options: PodNetworkOptions): Promise<PodNetworks> {
    if (options.plugin === "kubenet") {
      const list = parseSinglePlugin(JSON.stringify(kubenetConfiguration), "kubenet");
      return new PodNetworks(options, list);
    }
    const [first] = await readConfigurationFiles(options.confDir);
    if (first?.list === undefined) {
      const why = first === undefined ? "it has no list" : `${first.path}: ${first.problem ?? ""}`;
      throw new ShimError(
        "precondition",
        `read the CNI configuration in ${JSON.stringify(options.confDir)}: ${why}; name another --cni-conf-dir`,
      );
    }
    return new PodNetworks(options, first.list);
  }

  /** The addresses of the pod; undefined for a pod in the host's network. */
  async attach(sandbox: SandboxToAttach, outer: AbortSignal): Promise<readonly string[] | undefined> {
    const { linux, metadata } = sandbox.config;
    if (linux?.security_context?.namespace_options?.network === NamespaceMode.NODE) return undefined;
    const { plugin, program } = this.options;
    const { runner } = this.#cni;
    const signal = AbortSignal.any([outer, AbortSignal.timeout(attachMs)]);
    const netns = `/proc/${sandbox.pid}/ns/net`;
    const { name = "", namespace = "" } = metadata ?? {};
    const mappings = toPortMappings(sandbox.config.port_mappings);
    const attachment: Attachment = {
      containerId: sandbox.id,
      ifName: podInterface,
      netns,
      netnsIdentity: runner.invoker.namespaces.look(netns)?.identity,
      args: plugin === "kubenet" ? [] : podArguments({ sandboxId: sandbox.id, name, namespace }),
      capabilityArgs: plugin === "kubenet" ? {} : offered(sandbox.config, mappings),
      subject: `pod "${namespace}/${name}"`,
    };
    await this.#loopback(attachment, signal);
    const taken = declaredCapabilities(this.list);
    const given = Object.entries(attachment.capabilityArgs).filter(([key]) => taken.has(key));
    const capabilityArgs = Object.fromEntries(given);
    const result = await runner.add(this.list, { ...attachment, capabilityArgs }, signal);
    const config = plugin === "kubenet" ? JSON.stringify(kubenetConfiguration) : this.list.text;
    await this.#remember(attachment, { networkName: this.list.name, config, result });
    const addresses = podAddresses(result, podInterface);
    if (plugin === "kubenet") {
      const ports = { sandboxId: sandbox.id, subject: `${name}_${namespace}`, address: addresses[0] ?? "" };
      for (const mapping of mappings) await this.#openHostPort(ports, mapping, program, signal);
    }
    return addresses;
  }

  /** What pods that are removed left behind. */
  async whatIsLeft(signal: AbortSignal): Promise<readonly string[]> {
    const results = (await namesIn(resultsDirectory)).filter((name) => !name.startsWith("."));
    const networks = await namesIn(join(cniDirectory, "networks"));
    const stores = networks.map(async (network) =>
      (await namesIn(join(cniDirectory, "networks", network))).filter((name) => isIP(name) !== 0),
    );
    const links = await outputOf(runCommand, "ip", ["-brief", "link", "show", "type", "veth"], { signal });
    const rules = await outputOf(runCommand, "iptables-save", ["-t", "nat"], { signal });
    const chains = [...rules.matchAll(/^:((?:KUBE-HP|CNI-DN)-\S+|CNI-[0-9a-f]{24}) /gm)];
    return [
      ...results.map((name) => `the cached result ${name}`),
      ...(await Promise.all(stores)).flat().map((address) => `the reserved address ${address}`),
      ...[...links.matchAll(/^\S+/gm)].map(([link]) => `the link ${link}`),
      ...chains.map(([, chain = ""]) => `the iptables chain ${chain}`),
    ];
  }

  async #loopback(attachment: Attachment, signal: AbortSignal): Promise<void> {
    const { runner } = this.#cni;
    await bringUpLoopback(runner, attachment, signal);
    const isInstalled = await runner.invoker.find("loopback").catch(() => undefined);
    if (this.options.plugin === "kubenet" || isInstalled === undefined) return;
    const config = JSON.stringify(loopbackConfiguration);
    const result = await runner.add(parseNetworkList(config, "loopback"), attachment, signal);
    await this.#remember(attachment, { networkName: loopbackNetworkName, config, result });
  }

  /** The library of dockershim 1.20 does not keep the namespace. */
  async #remember(
    { containerId, ifName, netns, args: cniArgs, capabilityArgs }: Attachment,
    of: { readonly networkName: string; readonly config: string; readonly result: JsonObject },
  ): Promise<void> {
    const namespace = this.options.program === "dockershim" ? {} : { netns };
    await this.#cni.cache.write({ containerId, ifName, cniArgs, capabilityArgs, ...namespace, ...of });
  }

  /** As kubenet of both programs does. */
  async #openHostPort(
    pod: { readonly sandboxId: string; readonly subject: string; readonly address: string },
    mapping: PortMapping,
    program: LegacyProgram,
    signal: AbortSignal,
  ): Promise<void> {
    const { hostPort, containerPort, protocol, hostIp } = mapping;
    if (hostPort <= 0) return;
    const named = { hostPort, protocol, ...(program === "cri-dockerd" ? { hostIp } : {}) };
    const chain = hostPortChainName(pod.sandboxId, named);
    const rule = `-m comment --comment "${pod.subject} hostport ${hostPort}"`;
    const matches = `-m ${protocol} -p ${protocol}`;
    const portals = `-m comment --comment "kube hostport portals" -m addrtype --dst-type LOCAL -j ${baseChain}`;
    const input = [
      "*nat",
      ...(this.#hasHostPorts ? [] : [`:${baseChain} - [0:0]`, ":KUBE-MARK-MASQ - [0:0]"]),
      `:${chain} - [0:0]`,
      ...(this.#hasHostPorts ? [] : [`-A PREROUTING ${portals}`, `-A OUTPUT ${portals}`]),
      `-I ${baseChain} ${rule} ${matches} --dport ${hostPort} -j ${chain}`,
      `-A ${chain} ${rule} -s ${pod.address} -j KUBE-MARK-MASQ`,
      `-A ${chain} ${rule} ${matches} -j DNAT --to-destination=${pod.address}:${containerPort}`,
      ...["COMMIT", ""],
    ].join("\n");
    const words = ["--noflush"];
    const exit = await runCommand("iptables-restore", words, { signal, input });
    if (exit.exitCode !== 0) throw commandError("iptables-restore", words, exit);
    this.#hasHostPorts = true;
  }
}

/** What both programs offer to each plugin of a list. */
function offered(config: PodSandboxConfig, mappings: readonly PortMapping[]): JsonObject {
  const bandwidth = bandwidthOf(config.annotations);
  return {
    ...{ portMappings: [], ...portMappingsCapability(mappings) },
    ipRanges: [[{ subnet: rehearsalPodCidr }]],
    ...(bandwidth === undefined ? {} : { bandwidth }),
  };
}
