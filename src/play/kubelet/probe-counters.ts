/** One probe of one container, as the kubelet's probe worker counts it. Pure but for what it remembers. */
import type { Probe } from "../manifests/pod-schema.js";
import type { ProbeOutcome } from "../probes/run-probes-and-hooks.js";
import type { ProbeKind, ProbeResult } from "../pod-rules/probe-results.js";

/** A probe with Kubernetes' defaults. 0 means the default, as in Kubernetes. */
export interface ProbeTimes {
  readonly initialDelayMs: number;
  readonly periodMs: number;
  readonly timeoutMs: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
}

export function probeTimes(probe: Probe): ProbeTimes {
  const orDefault = (value: number | undefined, fallback: number): number =>
    value === undefined || value === 0 ? fallback : value;
  return {
    initialDelayMs: (probe.initialDelaySeconds ?? 0) * 1000,
    periodMs: orDefault(probe.periodSeconds, 10) * 1000,
    timeoutMs: orDefault(probe.timeoutSeconds, 1) * 1000,
    successThreshold: orDefault(probe.successThreshold, 1),
    failureThreshold: orDefault(probe.failureThreshold, 3),
  };
}

/** The container of a probe now. */
export interface ProbedContainer {
  readonly id: string;
  readonly isRunning: boolean;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** It runs, and its startup probe, if there is one, has succeeded. */
  readonly hasStarted: boolean;
}

/** Before the first result: a container lives, is not ready, and may or may not have started. */
const initialResults: Readonly<Record<ProbeKind, ProbeResult>> = {
  liveness: "success",
  readiness: "failure",
  startup: "unknown",
};

export class ProbeCounter {
  readonly times: ProbeTimes;
  #containerId: string | undefined;
  #result: ProbeResult = "unknown";
  #last: ProbeOutcome["result"] | undefined;
  /** Equal outcomes in a row. */
  #run = 0;
  #isOnHold = false;

  constructor(
    private readonly kind: ProbeKind,
    probe: Probe,
  ) {
    this.times = probeTimes(probe);
  }

  /** The result for that container; undefined for one that this counter has not seen. */
  result(containerId: string): ProbeResult | undefined {
    return containerId === this.#containerId ? this.#result : undefined;
  }

  /** Takes note of the container. A new id begins anew. */
  observe(container: ProbedContainer | undefined): void {
    if (container === undefined) return;
    if (container.id !== this.#containerId) {
      this.#containerId = container.id;
      this.#result = initialResults[this.kind];
      this.#isOnHold = false;
    }
    if (!container.isRunning && !this.#isOnHold) this.#result = "failure";
  }

  /** When to probe first, in milliseconds since 1970; undefined while the container needs no probe. */
  firstAt(container: ProbedContainer | undefined): number | undefined {
    if (container?.isRunning !== true || this.#isOnHold || container.id !== this.#containerId)
      return undefined;
    if (container.hasStarted === (this.kind === "startup")) return undefined;
    return container.startedAt + this.times.initialDelayMs;
  }

  /** Counts an outcome. Returns whether the result has changed. */
  count(containerId: string, { result }: Pick<ProbeOutcome, "result">): boolean {
    if (containerId !== this.#containerId || this.#isOnHold || result === "unknown") return false;
    this.#run = this.#last === result ? this.#run + 1 : 1;
    this.#last = result;
    const { successThreshold, failureThreshold } = this.times;
    if (this.#run < (result === "success" ? successThreshold : failureThreshold)) return false;
    const hasChanged = this.#result !== result;
    this.#result = result;
    // The container is about to be restarted, or has started: no more probes until there is a new one.
    if (this.kind === "startup" || (this.kind === "liveness" && result === "failure")) {
      this.#isOnHold = true;
      this.#run = 0;
    }
    return hasChanged;
  }
}
