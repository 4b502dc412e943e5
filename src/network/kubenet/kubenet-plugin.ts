/** `kubenet`: a bridge with addresses of the node's pod CIDR, without a configuration file. */
import { aggregate, messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type {
  EngineWhereabouts,
  NetworkPlugin,
  PodAddressQuestion,
  PodNetworkRequest,
  PodNetworkTearDown,
} from "../../shim/ports/network-plugin.js";
import type { OptionalPlugin, HairpinMode } from "./kubenet-conflist.js";
import { bandwidthOf } from "../cni/capability-arguments.js";
import type { NetworkList } from "../libcni/configuration.js";
import type { LegacyHostPorts } from "../hostport/legacy-host-ports.js";
import type { LegacyShaping } from "./legacy-shaping.js";
import type { Conntrack } from "../hostport/conntrack.js";
import { type RunCommand, outputOf } from "../iptables/run-command.js";
import type { DedupRules } from "./ebtables.js";
import type { KubenetNode } from "./kubenet-node.js";
import type { KubenetSource } from "./kubenet-source.js";
import type { NodeRules } from "./node-rules.js";
import { parsePodSubnets } from "../pod-cidrs.js";

export interface KubenetParts {
  readonly reason: string;
  readonly source: KubenetSource;
  /** CNI on that source. */
  readonly pods: NetworkPlugin & { stop(): Promise<void> };
  readonly node: Pick<KubenetNode, "engineFound" | "settled" | "stop" | "problem">;
  readonly rules: Pick<NodeRules, "ensureForwarding">;
  readonly dedup: DedupRules;
  readonly legacyHostPorts: LegacyHostPorts;
  readonly legacyShaping: Pick<LegacyShaping, "present" | "release">;
  readonly conntrack: Conntrack;
  readonly hairpinMode: HairpinMode;
  /** Used until UpdateRuntimeConfig sets others, or for good with `--pod-cidr`. */
  readonly podCidrs: readonly string[];
  /** Frees addresses of pods that are gone, never of one of `settingUp`; whether there were any. */
  readonly freeAddresses: (settingUp: ReadonlySet<string>, signal: AbortSignal) => Promise<boolean>;
  readonly run: RunCommand;
  readonly log: Pick<Logger, "info" | "warn" | "debug">;
}

export class KubenetNetworkPlugin implements NetworkPlugin {
  readonly name = "kubenet";
  readonly dockerNetworkMode = "none";
  readonly dockerPublishesPorts = false;
  readonly reason: string;
  /** Sandboxes whose set-up is under way. */
  readonly #settingUp = new Set<string>();

  constructor(private readonly parts: KubenetParts) {
    this.reason = parts.reason;
  }

  async start(signal: AbortSignal): Promise<void> {
    const { log, pods, podCidrs, hairpinMode } = this.parts;
    if (hairpinMode === "promiscuous-bridge") {
      // Seen with Linux 6.18: netfilter forgets the connections of packets that go up for this mode only.
      log.warn({ hairpinMode }, "promiscuous-bridge does not work on recent kernels, use hairpin-veth");
    }
    if (podCidrs.length > 0) await this.podCidrChanged(podCidrs);
    await pods.start(signal);
  }

  engineFound(engine: EngineWhereabouts): Promise<void> {
    return this.parts.node.engineFound(engine);
  }

  async stop(): Promise<void> {
    await this.parts.node.stop();
    await this.parts.pods.stop();
  }

  async setUpPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined> {
    const { node, source, rules, dedup, conntrack, hairpinMode, legacyShaping } = this.parts;
    await node.settled(signal);
    const reason = this.notReadyReason();
    if (reason !== undefined) throw new ShimError("unavailable", `kubenet cannot SetUpPod: ${reason}`);
    this.#requirePlugins(request);
    // Docker may have started, and changed the policy, since the last pod.
    await source.configure({ firewall: await rules.ensureForwarding(signal) });
    await this.#prepareIpv6(request, signal);
    const addresses = await this.#addPod(request, signal);
    if (hairpinMode === "promiscuous-bridge") await dedup.ensure(source.subnets, signal);
    // Of an earlier pod, which died while no program could release them.
    await legacyShaping.release(addresses ?? [], signal);
    await conntrack.forgetBefore(request.portMappings, addresses ?? [], signal);
    return addresses;
  }

  async tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    const { pods, legacyHostPorts, legacyShaping, conntrack } = this.parts;
    const addresses = await this.#knownAddresses(request);
    const failures: unknown[] = [];
    const note = (error: unknown): void => void failures.push(error);
    if (legacyHostPorts.present) await legacyHostPorts.remove(request, signal).catch(note);
    await pods.tearDownPod(request, signal).catch(note);
    const failure = aggregate(failures);
    if (failure !== undefined) throw failure;
    await legacyShaping.release(addresses, signal);
    await conntrack.forgetPod(request.portMappings, addresses, signal);
  }

  podAddresses(reference: PodAddressQuestion): Promise<readonly string[] | undefined> {
    return this.parts.pods.podAddresses(reference);
  }

  /** `PodCidrs` decides which CIDRs are used. Existing pods keep their addresses. */
  async podCidrChanged(cidrs: readonly string[]): Promise<void> {
    await this.parts.source.configure({ subnets: parsePodSubnets(cidrs) });
  }

  /** The list that new pods get, undefined while there is none. */
  network(): NetworkList | undefined {
    return this.parts.source.state().network;
  }

  notReadyReason(): string | undefined {
    const { source, node, pods } = this.parts;
    return node.problem ?? source.state().problem ?? pods.notReadyReason();
  }

  describe(): Readonly<Record<string, unknown>> {
    const { source, legacyHostPorts } = this.parts;
    return { ...source.describe(), legacyHostPorts: legacyHostPorts.present };
  }

  /** A full pool mostly holds leaked addresses: they are freed, and the set-up is tried again. */
  async #addPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined> {
    const { pods, freeAddresses, log } = this.parts;
    this.#settingUp.add(request.sandboxId);
    try {
      return await pods.setUpPod(request, signal);
    } catch (error) {
      if (signal.aborted || !messageOf(error).includes("no IP addresses available")) throw error;
      const freed = await freeAddresses(this.#settingUp, signal).catch((failure: unknown) => {
        log.warn({ err: messageOf(failure) }, "cannot look for leaked addresses");
        return false;
      });
      if (!freed) throw error;
      return await pods.setUpPod(request, signal);
    } finally {
      this.#settingUp.delete(request.sandboxId);
    }
  }

  #requirePlugins({ portMappings, annotations }: PodNetworkRequest): void {
    const wanted: readonly (readonly [OptionalPlugin, string, boolean])[] = [
      ["portmap", "host ports", portMappings.some(({ hostPort }) => hostPort > 0)],
      ["bandwidth", "bandwidth annotations", bandwidthOf(annotations) !== undefined],
    ];
    for (const [plugin, purpose, asked] of wanted) {
      if (!asked || this.parts.source.has(plugin)) continue;
      const text = `kubenet cannot SetUpPod: ${purpose} need the CNI plugin "${plugin}", which is not installed`;
      throw new ShimError("unavailable", text, { plugin });
    }
  }

  async #prepareIpv6({ netns, namespace, name }: PodNetworkRequest, signal: AbortSignal): Promise<void> {
    const { source, run, log } = this.parts;
    if (!source.subnets.some(({ family }) => family === "ipv6")) return;
    try {
      // /proc/sys/net shows the namespace of the process that reads it.
      const words = [`--net=${netns}`, "--", "sysctl", "-q", "-w", ...ipv6Settings];
      await outputOf(run, "nsenter", words, { signal });
    } catch (error) {
      signal.throwIfAborted();
      log.warn(
        { pod: `${namespace}/${name}`, err: messageOf(error) },
        "cannot prepare the pod's namespace for IPv6",
      );
    }
  }

  /** For flows and bandwidth limits alone: a failure must not keep a pod from being removed. */
  async #knownAddresses(request: PodNetworkTearDown): Promise<readonly string[]> {
    const hasFlows = request.portMappings.some(
      ({ protocol, hostPort }) => protocol === "udp" && hostPort > 0,
    );
    if (!hasFlows && !this.parts.legacyShaping.present) return [];
    const { netns, netnsIdentity } = request;
    const look = (): { netns: string; netnsIdentity: string } | undefined =>
      netns === undefined || netnsIdentity === undefined ? undefined : { netns, netnsIdentity };
    const addresses = await this.parts.pods.podAddresses({ ...request, look }).catch(() => undefined);
    return addresses ?? [];
  }
}

/** Docker disables IPv6 in namespaces without a network; duplicate detection takes a second. */
const ipv6Settings = ["net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.default.dad_transmits=0"];
