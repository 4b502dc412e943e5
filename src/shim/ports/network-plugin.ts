/** Pod networks, as dockershim's plugin interface with explicit types. Implemented in src/network. */
import type { NamespaceProof } from "../../lib/linux/network-namespaces.js";
import type { PortMapping } from "../../domain/sandbox.js";

/** The plugin that leaves the networks of pods to Docker. */
export const noopPluginName = "kubernetes.io/no-op";

export interface PodNetworkReference {
  readonly namespace: string;
  readonly name: string;
  readonly sandboxId: string;
}

export interface PodNetworkRequest extends PodNetworkReference {
  readonly uid: string;
  /** `/proc/<pid>/ns/net` of the pause container. */
  readonly netns: string;
  /** Identity of the namespace that was proven to be the pod's. Another one at that path is not touched. */
  readonly netnsIdentity?: string | undefined;
  /** Of that identity, as long as the call runs. */
  readonly proof?: NamespaceProof | undefined;
  readonly annotations: Readonly<Record<string, string>>;
  readonly portMappings: readonly PortMapping[];
  /** Cgroup of the pod, for plugins that act on it; empty or absent when it has none. */
  readonly cgroupParent?: string;
  readonly dns?: {
    readonly servers: readonly string[];
    readonly searches: readonly string[];
    readonly options: readonly string[];
  };
}

/** For tear-down: `netns` is absent when the namespace is gone. Port mappings are those of the set-up. */
export interface PodNetworkTearDown extends PodNetworkReference {
  readonly netns?: string;
  readonly netnsIdentity?: string | undefined;
  readonly portMappings: readonly PortMapping[];
  /**
   * The sandbox is this program's and never got ready: a set-up that failed, or was not even begun. What it
   * began is remembered, and nothing else is undone. Otherwise what is not known may be there all the same.
   */
  readonly unfinished?: boolean;
  /**
   * Name of the plugin that has set the pod up, by its record and its container. Undefined when it is not
   * known: a pod of another shim, on a network that is not Docker's.
   */
  readonly setUpBy?: string | undefined;
  /**
   * Called when the tear-down holds the namespace, which then outlives the processes in it: from then on the
   * pause container may be stopped. Without a call it may not, before the tear-down has ended.
   */
  readonly namespaceHeld?: () => void;
}

export interface EngineWhereabouts {
  /** Whether the engine's processes, and so the namespaces of pods, are on this host and visible. */
  readonly local: boolean;
  /** Whether the engine has a network for containers that name none; true when it was not asked. */
  readonly defaultNetwork?: boolean;
}

export interface PodAddressQuestion extends PodNetworkReference {
  /** Tells where to look; absent for pods of this program, whose addresses count only when their set-up has ended. */
  readonly look?: () => { readonly netns: string; readonly netnsIdentity: string } | undefined;
}

export interface NetworkPlugin {
  /** `cni`, `kubenet` or `noopPluginName`. */
  readonly name: string;
  /** Why this plugin was chosen, for the first screen and verbose Status. */
  readonly reason: string;
  /** `HostConfig.NetworkMode` of sandboxes with a pod network: `default` (Docker's bridge) or `none`. */
  readonly dockerNetworkMode: "default" | "none";
  /** Whether Docker publishes host ports; else the plugin does. */
  readonly dockerPublishesPorts: boolean;

  /** Called once before anything else. Waits for nothing that may hang: what takes time goes on in the background. */
  start(signal: AbortSignal): Promise<void>;
  /**
   * Each time that the engine was found. A plugin that works on the node begins with it then, if that is the
   * engine's. Resolves when that is done or has failed for the first time; callers need not wait.
   */
  engineFound(engine: EngineWhereabouts): Promise<void>;
  /** Ends watching and timers; pods keep their networks. */
  stop(): Promise<void>;
  /**
   * All pod IPs, first one first; undefined when Docker's own addresses are the pod's. Undoes nothing of its
   * own: after a failure the caller tears down.
   */
  setUpPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined>;
  /** By the plugin that has set the pod up. Idempotent; works with the namespace or the configuration gone. */
  tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void>;
  /**
   * IPs as stored at set-up, without running anything; of pods that another shim set up and that nothing is
   * stored of, those inside the namespace. Undefined when unknown or when Docker's are the pod's.
   */
  podAddresses(reference: PodAddressQuestion): Promise<readonly string[] | undefined>;
  /** The node's pod CIDRs, from UpdateRuntimeConfig. */
  podCidrChanged(cidrs: readonly string[]): Promise<void>;
  /** Undefined when ready, else the reason for NetworkReady false. */
  notReadyReason(): string | undefined;
  /** Further facts for verbose Status. */
  describe(): Readonly<Record<string, unknown>>;
}

/** A pod with host ports. */
export interface HostPortOwner {
  readonly sandboxId: string;
  readonly namespace: string;
  readonly name: string;
  readonly portMappings: readonly PortMapping[];
}

/** The sandboxes to which network resources may belong. */
export interface KnownSandboxes {
  /** All containers that the engine knows, in any state. Must be complete: all other containers count as dead. */
  readonly livingIds: ReadonlySet<string>;
  /** Sandboxes, dead or alive, with a checkpoint or record of this program, dockershim or cri-dockerd. */
  readonly ownIds: ReadonlySet<string>;
}

interface Resource {
  readonly what: string;
}

/** Finds and removes network resources of dead pods. Implemented by src/network/orphans. */
export interface NetworkCleanUp {
  /** Removes what certainly belongs to dead pods, and returns what was done. Throws only when `signal` aborts. */
  clean(
    known: () => Promise<KnownSandboxes>,
    signal: AbortSignal,
  ): Promise<{
    readonly cleaned: readonly Resource[];
    readonly failed: readonly { readonly finding: Resource; readonly reason: string }[];
    readonly left: readonly Resource[];
  }>;
  collectGarbage(known: () => Promise<KnownSandboxes>, signal: AbortSignal): Promise<void>;
}
