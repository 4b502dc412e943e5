/** The network plugin `kubenet`: a bridge with addresses of the node's pod CIDR, without any configuration file. */
import { aggregate, messageOf, ShimError } from "../../shim/base/errors.js";
import type { Logger } from "../../shim/base/log.js";
import type {
  NetworkPlugin,
  PodNetworkReference,
  PodNetworkRequest,
  PodNetworkTearDown,
} from "../../shim/ports/network-plugin.js";
import { bandwidthOf } from "../cni/bandwidth.js";
import type { AncestorHostPorts } from "../hostport/ancestor-host-ports.js";
import type { Conntrack } from "../hostport/conntrack.js";
import type { HostPortClaims } from "../hostport/host-port-claims.js";
import type { RunCommand } from "../iptables/run-command.js";
import type { DedupRules } from "./ebtables.js";
import { prepareHostSysctls } from "./host-sysctls.js";
import type { HairpinMode, OptionalPlugin } from "./kubenet-list.js";
import type { KubenetSource } from "./kubenet-source.js";
import { fallbackMtuBytes, readLinks, smallestMtuBytes } from "./mtu.js";
import type { NodeRules } from "./node-rules.js";
import { parsePodSubnets } from "./pod-subnets.js";
import { prepareIpv6 } from "./pod-sysctls.js";

export interface KubenetParts {
  readonly reason: string;
  readonly source: KubenetSource;
  /** CNI on that source. */
  readonly pods: NetworkPlugin & { stop(): Promise<void> };
  readonly rules: NodeRules;
  readonly dedup: DedupRules;
  readonly ancestors: AncestorHostPorts;
  readonly claims: HostPortClaims;
  readonly conntrack: Conntrack;
  readonly hairpinMode: HairpinMode;
  /** 0: the smallest of the node's interfaces. */
  readonly mtuBytes: number;
  /** Known before the kubelet tells, or instead of it. */
  readonly podCidrs: readonly string[];
  /** Frees addresses of pods that are gone; whether there were any. */
  readonly freeAddresses: (signal: AbortSignal) => Promise<boolean>;
  readonly run: RunCommand;
  readonly log: Pick<Logger, "info" | "warn" | "debug">;
}

export class KubenetNetworkPlugin implements NetworkPlugin {
  readonly name = "kubenet";
  readonly dockerNetworkMode = "none";
  readonly dockerPublishesPorts = false;
  readonly reason: string;
  #cidrProblem: string | undefined;
  #refusedCidrs: string | undefined;

  constructor(private readonly parts: KubenetParts) {
    this.reason = parts.reason;
  }

  async start(signal: AbortSignal): Promise<void> {
    const { run, log, source, rules, ancestors, pods, podCidrs, mtuBytes, hairpinMode } = this.parts;
    await prepareHostSysctls({ run, log }, signal);
    if (hairpinMode === "promiscuous-bridge") {
      // Seen with Linux 6.18: netfilter forgets the connections of packets that go up for this mode only.
      log.warn(
        { hairpinMode },
        "recent kernels keep pods from reaching themselves in this mode; hairpin-veth works",
      );
    }
    await source.configure({ mtuBytes: mtuBytes === 0 ? await this.#nodeMtuBytes(signal) : mtuBytes });
    if (podCidrs.length > 0) await this.podCidrChanged(podCidrs);
    await pods.start(signal);
    await rules.start(signal);
    await ancestors.start(signal);
  }

  async stop(): Promise<void> {
    this.parts.rules.stop();
    await this.parts.pods.stop();
  }

  async setUpPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined> {
    const { source, rules, claims, dedup, conntrack, hairpinMode } = this.parts;
    const reason = this.notReadyReason();
    if (reason !== undefined) throw new ShimError("unavailable", `kubenet cannot SetUpPod: ${reason}`);
    this.#requirePlugins(request);
    await claims.claim(request, signal);
    // Docker may have started, and changed the policy, since the last pod.
    await source.configure({ firewall: await rules.ensureForwarding(signal) });
    await this.#prepareIpv6(request, signal);
    const addresses = await this.#addPod(request, signal);
    if (hairpinMode === "promiscuous-bridge") await dedup.ensure(source.subnets, signal);
    await conntrack.forgetBefore(request.portMappings, addresses ?? [], signal);
    return addresses;
  }

  async tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    const { pods, ancestors, conntrack, claims } = this.parts;
    const addresses = await this.#knownAddresses(request);
    const failures: unknown[] = [];
    const note = (error: unknown): void => void failures.push(error);
    if (ancestors.present) await ancestors.remove(request, signal).catch(note);
    await pods.tearDownPod(request, signal).catch(note);
    const failure = aggregate(failures);
    if (failure !== undefined) throw failure;
    await conntrack.forgetPod(request.portMappings, addresses, signal);
    claims.release(request);
  }

  podAddresses(reference: PodNetworkReference): Promise<readonly string[] | undefined> {
    return this.parts.pods.podAddresses(reference);
  }

  /**
   * The first CIDRs that make sense count until the program ends, as with dockershim: a node keeps its pod CIDR for
   * life, and pods with addresses of another one could not be reached. Those of the flag come first. Bad ones are
   * logged and are the reason for not being ready, since the kubelet does not show the error of this call.
   */
  async podCidrChanged(cidrs: readonly string[]): Promise<void> {
    const { source, log } = this.parts;
    let subnets;
    try {
      subnets = parsePodSubnets(cidrs);
    } catch (error) {
      log.warn({ podCidrs: cidrs, err: messageOf(error) }, "ignoring a pod CIDR that makes no sense");
      if (source.subnets.length === 0) this.#cidrProblem = messageOf(error);
      return;
    }
    const [present, wanted] = [source.subnets, subnets].map((all) => all.map(({ cidr }) => cidr).join(","));
    if (present === wanted) return;
    if (present !== "") {
      // The kubelet may say it again and again.
      if (wanted !== this.#refusedCidrs)
        log.warn({ present, ignored: wanted }, "ignoring another pod CIDR until a restart");
      this.#refusedCidrs = wanted;
      return;
    }
    this.#cidrProblem = undefined;
    log.info({ podCidrs: wanted }, "the pod CIDR is known");
    await source.configure({ subnets });
  }

  notReadyReason(): string | undefined {
    const { source, rules, pods } = this.parts;
    const { problem } = source.state();
    if (problem !== undefined)
      return this.#cidrProblem === undefined ? problem : `${problem} (${this.#cidrProblem})`;
    return rules.problem ?? pods.notReadyReason();
  }

  describe(): Readonly<Record<string, unknown>> {
    const { source, ancestors } = this.parts;
    return { ...source.describe(), ancestorHostPorts: ancestors.present };
  }

  /** Frees addresses of pods that no container is left of, whose tear-down never came. Throws when it cannot be told. */
  async recoverAddresses(signal: AbortSignal): Promise<void> {
    await this.parts.freeAddresses(signal);
  }

  /** A full pool is mostly one of leaked addresses: those are freed, and the pod gets one. */
  async #addPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined> {
    const { pods, freeAddresses, log } = this.parts;
    try {
      return await pods.setUpPod(request, signal);
    } catch (error) {
      if (signal.aborted || !messageOf(error).includes("no IP addresses available")) throw error;
      const freed = await freeAddresses(signal).catch((failure: unknown) => {
        log.warn({ err: messageOf(failure) }, "cannot look for leaked addresses");
        return false;
      });
      if (!freed) throw error;
      return pods.setUpPod(request, signal);
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
      await prepareIpv6(run, netns, signal);
    } catch (error) {
      signal.throwIfAborted();
      log.warn(
        { pod: `${namespace}/${name}`, err: messageOf(error) },
        "cannot prepare the pod's namespace for IPv6",
      );
    }
  }

  async #nodeMtuBytes(signal: AbortSignal): Promise<number> {
    const { run, log } = this.parts;
    try {
      const found = smallestMtuBytes(await readLinks(run, signal));
      if (found !== undefined) return found;
      log.warn({ mtuBytes: fallbackMtuBytes }, "no interface of the node tells the MTU for pods");
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ mtuBytes: fallbackMtuBytes, err: messageOf(error) }, "cannot find out the MTU for pods");
    }
    return fallbackMtuBytes;
  }

  /** Only for flows to forget: what is not known is no reason to keep a pod. */
  async #knownAddresses(request: PodNetworkTearDown): Promise<readonly string[]> {
    if (!request.portMappings.some(({ protocol, hostPort }) => protocol === "udp" && hostPort > 0)) return [];
    const addresses = await this.parts.pods.podAddresses(request).catch(() => undefined);
    return addresses ?? [];
  }
}
