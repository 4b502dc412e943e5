/** Results of probes, as the decisions of the kubelet read them. */

export type ProbeKind = "startup" | "readiness" | "liveness";

/** `unknown`: a startup probe that has neither succeeded nor failed yet. */
export type ProbeResult = "success" | "failure" | "unknown";

export interface ProbeResults {
  /** Undefined without such a probe, or before it knows the container. */
  get(kind: ProbeKind, containerId: string): ProbeResult | undefined;
}

export const noProbeResults: ProbeResults = { get: () => undefined };
