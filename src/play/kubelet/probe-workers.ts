/** Runs the probes of one pod beside its loop. */
import { messageOf } from "../../lib/errors.js";
import type { Container, PodSpec, Probe } from "../manifests/pod-schema.js";
import type { Clock } from "./clock.js";
import type { EventSink } from "./events.js";
import type { Handlers } from "../probes/run-probes-and-hooks.js";
import { containerHash } from "../pod-config/hashes.js";
import { type ObservedPod, newestContainer, podIpOf } from "../pod-rules/observed-pod.js";
import { ProbeCounter, type ProbedContainer } from "./probe-counters.js";
import type { ProbeKind, ProbeResult, ProbeResults } from "../pod-rules/probe-results.js";
import { isSidecar } from "../pod-rules/restart-rules.js";

export interface ProbeDeps {
  readonly handlers: Pick<Handlers, "probe">;
  readonly clock: Clock;
  readonly event: EventSink;
}

const kinds = ["startup", "readiness", "liveness"] as const;

export class ProbeWorkers implements ProbeResults {
  readonly #workers = new Map<string, ProbeWorker>();
  #isClosed = false;

  /** `onChange` is called when a result has changed. */
  constructor(
    private readonly deps: ProbeDeps,
    private readonly onChange: () => void,
  ) {}

  get(kind: ProbeKind, containerId: string): ProbeResult | undefined {
    for (const worker of this.#workers.values()) {
      const result = worker.kind === kind ? worker.counter.result(containerId) : undefined;
      if (result !== undefined) return result;
    }
    return undefined;
  }

  /** Follows the containers of the pod. To be called after each observation. */
  update(spec: PodSpec, observed: ObservedPod): void {
    if (this.#isClosed) return;
    const wanted = new Set<string>();
    for (const container of [...(spec.initContainers ?? []).filter(isSidecar), ...spec.containers]) {
      for (const kind of kinds) {
        const probe = container[`${kind}Probe`];
        if (probe === undefined) continue;
        const key = `${kind} ${container.name} ${containerHash(container)}`;
        wanted.add(key);
        let worker = this.#workers.get(key);
        worker ??= new ProbeWorker(kind, container, probe, this.deps, this.onChange);
        this.#workers.set(key, worker);
        worker.observe(this.#probed(container, observed), podIpOf(spec, observed));
      }
    }
    for (const [key, worker] of this.#workers) {
      if (wanted.has(key)) continue;
      worker.stop();
      this.#workers.delete(key);
    }
  }

  /** No more liveness and startup probes: the pod is being deleted. */
  stopKilling(): void {
    for (const worker of this.#workers.values()) if (worker.kind !== "readiness") worker.stop();
  }

  close(): void {
    this.#isClosed = true;
    for (const worker of this.#workers.values()) worker.stop();
  }

  #probed(container: Container, observed: ObservedPod): ProbedContainer | undefined {
    const entry = newestContainer(observed, container.name);
    if (entry === undefined) return undefined;
    const isRunning = entry.state === "running";
    const startup = this.get("startup", entry.id);
    const hasStarted = isRunning && (container.startupProbe === undefined || startup === "success");
    return { id: entry.id, isRunning, startedAt: entry.startedAt, hasStarted };
  }
}

class ProbeWorker {
  readonly counter: ProbeCounter;
  #container: ProbedContainer | undefined;
  #podIp = "";
  #cancelTimer: (() => void) | undefined;
  #probing: AbortController | undefined;
  #isStopped = false;

  constructor(
    readonly kind: ProbeKind,
    private readonly container: Container,
    private readonly probe: Probe,
    private readonly deps: ProbeDeps,
    private readonly onChange: () => void,
  ) {
    this.counter = new ProbeCounter(kind, probe);
  }

  observe(container: ProbedContainer | undefined, podIp: string): void {
    this.#podIp = podIp;
    this.#container = container;
    this.counter.observe(container);
    const firstAt = this.#isStopped ? undefined : this.counter.firstAt(container);
    if (firstAt === undefined) this.#pause();
    else if (this.#cancelTimer === undefined && this.#probing === undefined) {
      // Later only when the clock was set back.
      const { initialDelayMs } = this.counter.times;
      this.#schedule(Math.min(firstAt - this.deps.clock.now(), initialDelayMs));
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#pause();
  }

  #pause(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#probing?.abort();
    this.#probing = undefined;
  }

  #schedule(milliseconds: number): void {
    this.#cancelTimer = this.deps.clock.after(Math.max(0, milliseconds), () => {
      this.#cancelTimer = undefined;
      void this.#run();
    });
  }

  /** Never rejects. Periods are counted from the beginning of the probe. */
  async #run(): Promise<void> {
    const container = this.#container;
    if (container === undefined) return;
    const startedUptime = this.deps.clock.uptime();
    const probing = new AbortController();
    this.#probing = probing;
    const target = { containerId: container.id, container: this.container, podIp: this.#podIp };
    const outcome = await this.deps.handlers
      .probe(this.probe, target, probing.signal)
      .catch((error: unknown) => ({ result: "unknown", message: messageOf(error) }) as const);
    if (this.#probing !== probing) return; // Ended meanwhile.
    this.#probing = undefined;
    if (outcome.result === "failure") {
      const name = `${this.kind.charAt(0).toUpperCase()}${this.kind.slice(1)}`;
      this.deps.event(
        "Warning",
        "Unhealthy",
        `${name} probe failed: ${outcome.message}`,
        this.container.name,
      );
    }
    const hasChanged = this.counter.count(container.id, outcome);
    if (this.counter.firstAt(this.#container) !== undefined) {
      const { periodMs } = this.counter.times;
      this.#schedule(startedUptime + periodMs - this.deps.clock.uptime());
    }
    if (hasChanged) this.onChange();
  }
}
