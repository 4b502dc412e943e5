/** Configuration and plugins of CNI, bridges, iptables, and what dead pods left. Plugins are asked VERSION and STATUS. */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { isIPv4 } from "node:net";
import { linkAbort } from "../../lib/abort.js";
import type { Logger } from "../../lib/log.js";
import { isList, isObject, type JsonObject, stringAt } from "../../lib/json/exact-json.js";
import { ConfigurationDirectory } from "../../network/cni/configuration-directory.js";
import { type CniParts, createCniParts } from "../../network/cni/create-cni-plugin.js";
import { StatusProbe } from "../../network/cni/status-probe.js";
import { readNodeRanges } from "../../network/example/free-range.js";
import { HostIptables } from "../../network/iptables/host-iptables.js";
import { parseSavedTable, type SavedRule, targetOf } from "../../network/iptables/saved-table.js";
import { readConfigurationFiles } from "../../network/libcni/configuration-files.js";
import type { NetworkList } from "../../network/libcni/configuration.js";
import { binariesOf } from "../../network/libcni/validate-list.js";
import { OrphanedNetworks } from "../../network/orphans/orphaned-networks.js";
import type { Config } from "../../shim/config/resolve.js";
import type { Engine } from "../../shim/ports/engine.js";
import type { KnownSandboxes } from "../../shim/ports/network-plugin.js";
import { knownEngineId, knownSandboxes } from "../../shim/recovery/remove-orphaned-networks.js";
import type {
  BridgeFacts,
  ConfigurationFileFacts,
  FirewallFacts,
  NetworkFacts,
  OrphanFacts,
  AddressUse,
} from "../facts.js";
import { succeeds } from "../../lib/errors.js";
import { hostLocalDirectory, reservedAddresses } from "../../network/orphans/held-resources.js";

type NetworkConfig = Pick<
  Config,
  "networkPlugin" | "cniConfDir" | "cniBinDirs" | "cniCacheDir" | "iptablesMode" | "stateDir"
>;

export class NetworkReader {
  readonly #parts: CniParts;

  constructor(
    private readonly config: NetworkConfig,
    private readonly log: Logger,
  ) {
    const { cniBinDirs: binDirs, cniCacheDir: cacheDir, iptablesMode: mode } = config;
    this.#parts = createCniParts({ log, binDirs, cacheDir, iptables: new HostIptables({ mode, log }) });
  }

  async network(signal: AbortSignal): Promise<NetworkFacts> {
    const { networkPlugin, cniConfDir: directory } = this.config;
    const isThere = (await stat(directory).catch(() => undefined))?.isDirectory() === true;
    const plugin = networkPlugin === "auto" ? (isThere ? "cni" : "no-op") : networkPlugin;
    const common = { plugin, bridges: await readBridges(), ranges: await readNodeRanges() } as const;
    if (plugin !== "cni")
      return {
        ...common,
        configurations: [],
        ...{ network: undefined, problem: undefined, status: undefined, addresses: undefined },
      };
    const source = new ConfigurationDirectory({ directory, invoker: this.#parts.invoker, log: this.log });
    using _ = linkAbort(signal, () => void source.stop());
    await source.start();
    const { network, problem } = source.state();
    await source.stop();
    return {
      ...common,
      configurations: await this.#configurations(directory),
      network: network?.name,
      problem,
      status: network === undefined ? undefined : await this.#status(network),
      addresses: network === undefined ? undefined : await readAddressUse(network),
    };
  }

  async firewall(signal: AbortSignal): Promise<FirewallFacts> {
    const iptables = await this.#parts.iptables.chosen(signal);
    const { version, differsFromDefault } = iptables.tools;
    const { rules } = parseSavedTable(await iptables.save("ipv4", "filter", signal), "filter");
    const others = rules.filter((rule) => rule.chain === "FORWARD" && !isOfEngine(rule));
    return {
      version: version.text,
      differsFromDefault,
      forwardPolicy: await iptables.policy("ipv4", "FORWARD", signal),
      otherForwardRules: others.map(({ text }) => text),
    };
  }

  async orphans(
    engine: Engine,
    { check }: { readonly check: boolean },
    signal: AbortSignal,
  ): Promise<OrphanFacts> {
    const { cniConfDir, stateDir } = this.config;
    // All valid lists, even if their plugins are missing.
    const networks = async (): Promise<readonly NetworkList[]> =>
      (await readConfigurationFiles(cniConfDir)).flatMap(({ list }) => list ?? []);
    const orphans = new OrphanedNetworks(this.#parts, networks);
    const known = (): Promise<KnownSandboxes> => knownSandboxes(stateDir, engine, signal);
    const resources = await orphans.find(known, signal);
    const complaints = check ? await orphans.check((await known()).livingIds, signal) : undefined;
    return {
      ...(await otherEngine(stateDir, engine, signal)),
      ...{ resources: resources.map(({ what, certainlyOurs }) => ({ what, certainlyOurs })), complaints },
    };
  }

  async #configurations(directory: string): Promise<readonly ConfigurationFileFacts[]> {
    const facts: ConfigurationFileFacts[] = [];
    for (const { path, list, problem } of await readConfigurationFiles(directory)) {
      // For lo alone, as nodes have it beside the file of their network.
      if (list?.plugins.every(({ type }) => type === "loopback") === true) continue;
      const missing = list === undefined ? [] : await this.#missing(list);
      facts.push({ path, network: list?.name, problem, missing, bridges: bridgesOf(list) });
    }
    return facts;
  }

  async #missing(list: NetworkList): Promise<readonly string[]> {
    const missing: string[] = [];
    for (const type of binariesOf(list)) {
      const isFound = await succeeds(this.#parts.invoker.find(type));
      if (!isFound) missing.push(type);
    }
    return missing;
  }

  async #status(network: NetworkList): Promise<string | undefined> {
    const probe = new StatusProbe(this.#parts.runner);
    await probe.ask(network);
    const problem = probe.problemOf(network);
    probe.stop();
    return problem;
  }
}

/** As the server, which keeps the networks of pods that may run there. */
export async function otherEngine(
  stateDir: string,
  engine: Pick<Engine, "connect">,
  signal: AbortSignal,
): Promise<Pick<OrphanFacts, "otherEngine">> {
  const known = await knownEngineId(stateDir);
  return known === undefined || known === (await engine.connect(signal)).engineId
    ? {}
    : { otherEngine: known };
}

/** Docker's rules let its own bridges pass; KUBE-FORWARD lets pass what kube-proxy has marked. */
function isOfEngine(rule: SavedRule): boolean {
  const target = targetOf(rule) ?? "";
  return (
    /^(DOCKER|KUBE-)/.test(target) ||
    rule.words.some((word) => /^(docker0|docker_gwbridge|br-[0-9a-f]{12})$/.test(word))
  );
}

/** With the names and ranges that the configuration writes; a range may come from elsewhere. */
function bridgesOf(list: NetworkList | undefined): ConfigurationFileFacts["bridges"] {
  return (list?.plugins ?? []).flatMap(({ type, configuration }) => {
    if (type !== "bridge") return [];
    const { ipam } = configuration;
    return [
      { name: stringAt(configuration, "bridge") ?? "cni0", subnets: isObject(ipam) ? subnetsOf(ipam) : [] },
    ];
  });
}

function subnetsOf(ipam: JsonObject): readonly string[] {
  const ranges = isList(ipam["ranges"]) ? ipam["ranges"] : [];
  const places = [ipam, ...ranges.flatMap((set) => (isList(set) ? set : []))];
  return places.flatMap((place) => (isObject(place) ? (stringAt(place, "subnet") ?? []) : [])).filter(isIpv4);
}

function isIpv4(subnet: string): boolean {
  return !subnet.includes(":");
}

async function readBridges(directory = "/sys/class/net"): Promise<readonly BridgeFacts[]> {
  const bridges: BridgeFacts[] = [];
  for (const name of await readdir(directory).catch(() => [])) {
    const ports = await readdir(join(directory, name, "brif")).catch(() => undefined);
    if (ports !== undefined) bridges.push({ name, ports: ports.length });
  }
  return bridges;
}

/** Undefined where another plugin gives addresses, or the ranges come with the pod. */
export async function readAddressUse(
  network: NetworkList,
  base = hostLocalDirectory,
): Promise<AddressUse | undefined> {
  const ipam = network.plugins.map(({ configuration }) => configuration["ipam"]).find(isObject);
  if (ipam?.["type"] !== "host-local") return undefined;
  const ranges = rangesOf(ipam);
  if (ranges.length === 0) return undefined;
  const directory = stringAt(ipam, "dataDir") ?? "";
  // Other users may not see them, and the network is judged without.
  const reserved = await reservedAddresses(directory === "" ? base : directory, network.name).catch(
    () => undefined,
  );
  if (reserved === undefined) return undefined;
  return {
    ranges: ranges.map((range) => stringAt(range, "subnet") ?? ""),
    used: reserved.filter(({ address }) => isIPv4(address)).length,
    total: ranges.reduce((sum, range) => sum + sizeOf(range), 0),
  };
}

function rangesOf(ipam: JsonObject): readonly JsonObject[] {
  const sets = isList(ipam["ranges"]) ? ipam["ranges"] : [];
  const all = [ipam, ...sets.flatMap((set) => (isList(set) ? set.filter(isObject) : []))];
  return all.filter((range) => /^[\d.]+\/\d+$/.test(stringAt(range, "subnet") ?? ""));
}

/** Without the addresses of the network, of the gateway and for all. */
function sizeOf(range: JsonObject): number {
  const [first = "", bits = ""] = (stringAt(range, "subnet") ?? "").split("/");
  const start = Math.max(numberOf(first) + 2, numberOf(stringAt(range, "rangeStart") ?? ""));
  const last = numberOf(first) + 2 ** (32 - Number(bits)) - 2;
  const end = Math.min(last, numberOf(stringAt(range, "rangeEnd") ?? "") || last);
  return Math.max(0, end - start + 1);
}

function numberOf(address: string): number {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}
