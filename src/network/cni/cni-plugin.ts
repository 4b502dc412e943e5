/** The network plugin `cni`: pod networks by the plugins of a network list. */
import { orAbort, sleep, withDeadline } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { noteWait } from "../../lib/waits.js";
import type {
  NetworkPlugin,
  PodAddressQuestion,
  PodNetworkReference,
  PodNetworkRequest,
  PodNetworkTearDown,
} from "../../shim/ports/network-plugin.js";
import type { Attachments, Removal } from "./attachments.js";
import {
  ipRangesCapability,
  isSayable,
  podArguments,
  podCapabilities,
  portMappingsCapability,
  requireSayable,
  splitCidrs,
} from "./capability-arguments.js";
import type { RunCommand } from "../iptables/run-command.js";
import { declaredCapabilities, type NetworkList } from "../libcni/configuration.js";
import { proveNamespace } from "../../lib/linux/network-namespaces.js";
import { bringUpLoopback } from "./loopback.js";
import { namespaceAddresses } from "./namespace-addresses.js";
import type { Attachment, NetworkListRunner } from "../libcni/network-list-runner.js";
import type { NetworkSource } from "./network-source.js";
import { podAddresses } from "../libcni/result.js";
import type { StatusProbe } from "./status-probe.js";

/** Name of the pod's interface, always. */
export const podInterface = "eth0";

export interface CniTimeouts {
  readonly setUpMs: number;
  readonly tearDownMs: number;
}

const defaultTimeouts: CniTimeouts = { setUpMs: 220_000, tearDownMs: 220_000 };
/** Plugins mostly answer within milliseconds; the start does not wait for one that hangs. */
const firstLookMs = 500;

export interface CniPluginParts {
  readonly name: string;
  readonly reason: string;
  readonly source: NetworkSource;
  readonly runner: NetworkListRunner;
  readonly attachments: Attachments;
  readonly status: StatusProbe;
  /** Called at the start, before anything is run. */
  readonly open: () => Promise<void>;
  readonly log: Pick<Logger, "debug" | "info" | "warn">;
  /** Known before UpdateRuntimeConfig brings them, which it does only when the kubelet starts. */
  readonly podCidrs?: readonly string[];
  readonly timeouts?: Partial<CniTimeouts>;
  readonly run?: RunCommand;
}

/** Calls for one pod must come one after the other; those of different pods overlap without a limit. */
export class CniNetworkPlugin implements NetworkPlugin {
  readonly name: string;
  readonly reason: string;
  readonly dockerNetworkMode = "none";
  readonly dockerPublishesPorts = false;
  readonly #timeouts: CniTimeouts;
  #podCidrs: readonly string[];
  /** Addresses of running pods; others are in the cache on disk. */
  readonly #addresses = new Map<string, readonly string[]>();
  /** Begins and ends of tear-downs so far. */
  #tearDowns = 0;
  /** Ends when the source has been read and its plugins have answered. Never rejects. */
  #firstLook: Promise<void> = Promise.resolve();

  constructor(private readonly parts: CniPluginParts) {
    this.name = parts.name;
    this.reason = parts.reason;
    this.#podCidrs = splitCidrs(parts.podCidrs ?? []);
    this.#timeouts = { ...defaultTimeouts, ...parts.timeouts };
  }

  /** Does not wait for plugins that hang: until they have answered, the state is a problem. */
  async start(signal: AbortSignal): Promise<void> {
    await this.parts.open();
    this.#firstLook = this.#look(signal);
    const timer = new AbortController();
    const asked = this.#firstLook.then(() => this.#askForStatus());
    await Promise.race([asked, sleep(firstLookMs, timer.signal).catch(() => undefined)]);
    timer.abort();
  }

  engineFound(): Promise<void> {
    // Nothing is done on the node before a pod is there.
    return Promise.resolve();
  }

  async stop(): Promise<void> {
    this.parts.status.stop();
    await this.parts.source.stop();
  }

  /** After a failure everything that was begun is in the cache, for the tear-down; so it is after a crash. */
  async setUpPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[]> {
    // Right after the start the configuration may not have been read yet.
    await orAbort(this.#firstLook, signal);
    const list = this.#usableNetwork();
    const subject = subjectOf(request);
    const declared = declaredCapabilities(list);
    const attachment: Attachment = {
      containerId: request.sandboxId,
      netns: request.netns,
      netnsIdentity:
        request.netnsIdentity ?? this.parts.runner.invoker.namespaces.look(request.netns)?.identity,
      proof: request.proof,
      ifName: podInterface,
      args: requireSayable(podArguments(request)),
      capabilityArgs: podCapabilities(request, this.#podCidrs, declared),
      subject,
    };
    if (request.portMappings.some(({ hostPort }) => hostPort > 0) && !declared.has("portMappings")) {
      this.parts.log.warn(
        { subject, network: list.name },
        "pod requests host ports, but no CNI plugin has the portMappings capability",
      );
    }
    const addresses = await this.#attach(list, attachment, signal);
    if (addresses.length === 0) this.parts.log.warn({ subject, network: list.name }, "pod got no address");
    this.#addresses.set(request.sandboxId, addresses);
    return addresses;
  }

  /** Runs to its end or its own deadline, also when the caller has left: a partial DEL leaves leaks. */
  async tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    const { tearDownMs } = this.#timeouts;
    const { attachments } = this.parts;
    const removal = this.#removalOf(request);
    this.#tearDowns += 1;
    const action = `tear down the network of ${removal.subject}`;
    await attachments.alone(removal.containerId, signal, () =>
      withDeadline(undefined, tearDownMs, action, async (own) => {
        using _noted = noteWait(signal, { action, inner: own });
        await attachments.remove(removal, own);
      }),
    );
    this.#tearDowns += 1;
    this.#addresses.delete(request.sandboxId);
  }

  async podAddresses({ sandboxId, look }: PodAddressQuestion): Promise<readonly string[] | undefined> {
    const known = this.#addresses.get(sandboxId);
    if (known !== undefined) return known;
    const tearDowns = this.#tearDowns;
    const found = await this.parts.attachments.addresses(sandboxId, podInterface);
    // The pod may have been torn down during the read: then its addresses are not kept.
    if (found !== undefined && tearDowns === this.#tearDowns) this.#addresses.set(sandboxId, found);
    if (found !== undefined || look === undefined) return found;
    if (await this.parts.attachments.isKnown(sandboxId)) return undefined;
    const namespace = look();
    const { namespaces } = this.parts.runner.invoker;
    if (namespace === undefined) return undefined;
    return namespaceAddresses(namespaces, namespace, podInterface).catch((error: unknown) => {
      if (!isKind(error, "exhausted")) throw error;
      // A pod without an address, but not without a status.
      this.parts.log.debug({ sandboxId, err: error.message }, "cannot read the addresses of the pod");
      return undefined;
    });
  }

  podCidrChanged(cidrs: readonly string[]): Promise<void> {
    this.#podCidrs = splitCidrs(cidrs);
    this.parts.log.info({ podCidrs: this.#podCidrs }, "pod CIDR set");
    return Promise.resolve();
  }

  /** The list that new pods get, undefined while there is none. */
  network(): NetworkList | undefined {
    return this.parts.source.state().network;
  }

  notReadyReason(): string | undefined {
    const { network } = this.parts.source.state();
    const reason = this.#unusableReason();
    if (reason !== undefined || network === undefined) return reason;
    return this.parts.status.problemOf(network);
  }

  describe(): Readonly<Record<string, unknown>> {
    const { network } = this.parts.source.state();
    const status = network === undefined ? undefined : this.parts.status.problemOf(network);
    return {
      ...this.parts.source.describe(),
      ...(this.#podCidrs.length === 0 ? {} : { podCidrs: this.#podCidrs }),
      ...(status === undefined ? {} : { status }),
    };
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { source, log } = this.parts;
    try {
      await source.start(signal);
    } catch (error) {
      log.warn({ err: messageOf(error) }, "cannot load the network configuration");
    }
  }

  async #askForStatus(): Promise<void> {
    const { source, status } = this.parts;
    const { network } = source.state();
    if (network !== undefined) await status.ask(network);
  }

  /** The time limit begins with the lock. */
  #attach(list: NetworkList, attachment: Attachment, signal: AbortSignal): Promise<readonly string[]> {
    const { runner, attachments, run } = this.parts;
    const action = `set up the network of ${attachment.subject}`;
    return attachments.alone(attachment.containerId, signal, () =>
      withDeadline(signal, this.#timeouts.setUpMs, action, async (own) => {
        const { namespaces } = runner.invoker;
        using found = attachment.proof === undefined ? proveNamespace(namespaces, attachment) : undefined;
        const proven = { ...attachment, proof: attachment.proof ?? found };
        await bringUpLoopback(runner, proven, own, run);
        return podAddresses(await attachments.add(list, proven, own), podInterface);
      }),
    );
  }

  #removalOf(request: PodNetworkTearDown): Removal {
    const { source } = this.parts;
    const network = source.state().network ?? source.lastGood();
    const cidrs = this.#podCidrs.map((subnet) => [{ subnet }]);
    return {
      containerId: request.sandboxId,
      ifName: podInterface,
      ...(request.netns === undefined ? {} : { netns: request.netns }),
      netnsIdentity: request.netnsIdentity,
      // The ADD had no such arguments either, and they must not keep a pod from being deleted.
      args: podArguments(request).filter(isSayable),
      capabilityArgs: {
        ...portMappingsCapability(request.portMappings),
        ...(cidrs.length === 0 ? {} : { [ipRangesCapability]: cidrs }),
      },
      ...(network === undefined ? {} : { network }),
      rememberedOnly: request.unfinished === true,
      namespaceHeld: request.namespaceHeld,
      subject: subjectOf(request),
    };
  }

  #usableNetwork(): NetworkList {
    const { network } = this.parts.source.state();
    const reason = this.#unusableReason();
    if (network === undefined || reason !== undefined)
      throw new ShimError("unavailable", reason ?? "no network");
    return network;
  }

  #unusableReason(): string | undefined {
    const { network, problem } = this.parts.source.state();
    if (network === undefined) return `cni config uninitialized: ${problem}`;
    if (declaredCapabilities(network).has(ipRangesCapability) && this.#podCidrs.length === 0) {
      return "cni config needs ipRanges but no PodCIDR set";
    }
    return undefined;
  }
}

/** A sandbox of which only the id is known has no pod name. */
function subjectOf({ namespace, name, sandboxId }: PodNetworkReference): string {
  return name === ""
    ? `sandbox ${JSON.stringify(sandboxId)}`
    : `pod ${JSON.stringify(`${namespace}/${name}`)}`;
}
