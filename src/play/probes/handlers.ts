/** What the kubelet's loop asks of probes and lifecycle hooks. */
import type { Container, LifecycleHandler, Probe } from "../manifests/pod-schema.js";

/** The running container that a probe or a hook is for. */
export interface HandlerTarget {
  readonly containerId: string;
  readonly container: Container;
  /** The pod's address, for handlers without a host; the node's on the host network. */
  readonly podIp: string;
}

/** `unknown`: the probe could not be made; the kubelet leaves the counters as they are. */
export interface ProbeOutcome {
  readonly result: "success" | "failure" | "unknown";
  /** For events: `HTTP probe failed with statuscode: 500`. */
  readonly message: string;
}

export interface Handlers {
  /** Ends within the probe's timeoutSeconds (1 unless given). Rejects only when `signal` aborts. */
  probe(probe: Probe, target: HandlerTarget, signal: AbortSignal): Promise<ProbeOutcome>;
  /** Rejects with a ShimError that says what the hook answered. Its limit is the caller's signal. */
  runHook(hook: LifecycleHandler, target: HandlerTarget, signal: AbortSignal): Promise<void>;
}
