/** Statistics from the engine, one request per container: for engines on other hosts. */
import { withDeadline } from "../../lib/abort.js";
import type { Logger } from "../../lib/log.js";
import { isKind, messageOf, type ShimError } from "../../lib/errors.js";
import { Semaphore } from "../../lib/sync/semaphore.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import type { EngineReading, ResourceReading } from "../../domain/resource-reading.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import type { PodParts, PodReading, ReadOptions, StatsSource } from "../ports/stats.js";
import { CpuRate } from "./cpu-rate.js";
import { defaultFirst } from "./network-interfaces.js";
import { sumReadings } from "./sum-readings.js";

/** A kubelet asks for pods, containers and metrics in a row; each sample serves them all. */
const freshForMs = 1_000;
/**
 * A container for which the engine hangs must not delay the answer about the others. Half of it without any
 * answer ends the wait for a connection: so the wait never ends as the requests that hang do.
 */
const sampleLimitMs = 5_000;
/** Such a container is left out for this time. */
const hungForMs = 30_000;
/** Connections, each with a handshake of TLS or ssh. A request that hangs takes one for `sampleLimitMs`. */
const requestsAtOnce = 32;

export interface EngineStatsDeps {
  readonly engine: Pick<Engine, "containerStats">;
  readonly log: Pick<Logger, "warn">;
  readonly now?: () => number;
  readonly sampleLimitMs?: number;
}

interface Sample {
  /** It serves until then. */
  readonly untilMs: number;
  readonly reading: EngineReading | undefined;
}

export class EngineStats implements StatsSource {
  readonly #samples = new Map<string, Sample>();
  readonly #flights = new SingleFlight<EngineReading | undefined>();
  readonly #requests = new Semaphore(requestsAtOnce);
  /** Each begins the wait of a request anew. */
  readonly #restarts = new Set<() => void>();
  /** Why the latest sample of a container failed. */
  readonly #failed = new Map<string, string>();
  readonly #rates = new Map<string, { readonly started: bigint; readonly rate: CpuRate }>();
  readonly #now: () => number;

  constructor(private readonly deps: EngineStatsDeps) {
    this.#now = deps.now ?? (() => performance.now());
  }

  async *readContainers(
    containers: readonly Snapshot[],
    _options: ReadOptions,
    signal: AbortSignal,
  ): AsyncGenerator<readonly [string, ResourceReading]> {
    const samples = await this.#sampleAll(containers, signal);
    for (const { id } of containers) {
      const sample = samples.get(id);
      if (sample !== undefined) yield [id, sample.resources];
    }
  }

  async *readPods(
    pods: readonly PodParts[],
    _options: ReadOptions,
    signal: AbortSignal,
  ): AsyncGenerator<readonly [string, PodReading]> {
    // At once: one request after the other would take seconds.
    const samples = await this.#sampleAll(
      pods.flatMap(({ sandbox, containers }) => [sandbox, ...containers]),
      signal,
    );
    for (const { sandbox, containers, hostNetwork } of pods) {
      const pause = samples.get(sandbox.id);
      if (pause === undefined) continue;
      const own = new Map<string, ResourceReading>();
      for (const { id } of containers) {
        const sample = samples.get(id);
        if (sample !== undefined) own.set(id, sample.resources);
      }
      const sum = sumReadings([pause.resources, ...own.values()]);
      // Docker knows the interfaces of its own networks only; none means that it knows nothing.
      const knowsNetwork = !hostNetwork && pause.interfaces.length > 0;
      const reading: PodReading = {
        resources:
          sum === undefined
            ? undefined
            : { ...sum, nanoCores: this.#rate(`pod ${sandbox.id}`, sandbox, sum.cpu?.usageNanoseconds) },
        interfaces: knowsNetwork ? defaultFirst(pause.interfaces) : undefined,
        containers: own,
      };
      yield [sandbox.id, reading];
    }
  }

  forgetAllBut(isRunning: (id: string) => boolean): void {
    for (const id of this.#samples.keys()) if (!isRunning(id)) this.#samples.delete(id);
    for (const id of this.#failed.keys()) if (!isRunning(id)) this.#failed.delete(id);
    for (const key of this.#rates.keys()) if (!isRunning(key.replace(/^pod /, ""))) this.#rates.delete(key);
  }

  failureOf(id: string): string | undefined {
    return this.#failed.get(id);
  }

  close(): void {
    this.forgetAllBut(() => false);
  }

  /** Containers that cannot be read are left out. `unavailable` when the engine can be reached for none of them. */
  async #sampleAll(
    containers: readonly Snapshot[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, EngineReading>> {
    const found = new Map<string, EngineReading>();
    const missing: ShimError[] = [];
    let answers = 0;
    await Promise.all(
      this.#hungLast(containers).map(async (container) => {
        try {
          const reading = await this.#sample(container, signal);
          answers += 1;
          if (reading !== undefined) found.set(container.id, reading);
        } catch (error) {
          signal.throwIfAborted();
          if (isKind(error, "unavailable")) missing.push(error);
        }
      }),
    );
    const [unavailable] = missing;
    if (answers === 0 && unavailable !== undefined) throw unavailable;
    return found;
  }

  /** Those without an answer the last time must not take the places of the others. */
  #hungLast(containers: readonly Snapshot[]): readonly Snapshot[] {
    const hung = new Set<Snapshot>();
    for (const container of containers) {
      const known = this.#samples.get(container.id);
      if (known !== undefined && known.reading === undefined) hung.add(container);
    }
    return [...containers.filter((container) => !hung.has(container)), ...hung];
  }

  async #sample(container: Snapshot, signal: AbortSignal): Promise<EngineReading | undefined> {
    const { id } = container;
    const known = this.#samples.get(id);
    if (known !== undefined && this.#now() < known.untilMs) return known.reading;
    return this.#flights.run(id, signal, (shared) => this.#ask(container, shared));
  }

  async #ask(container: Snapshot, signal: AbortSignal): Promise<EngineReading | undefined> {
    const { id } = container;
    const request = { isSent: false };
    try {
      const action = `read the statistics of container "${id}"`;
      const limitMs = this.deps.sampleLimitMs ?? sampleLimitMs;
      const answer = await this.#whenFree(signal, limitMs / 2, () => {
        request.isSent = true;
        return withDeadline(signal, limitMs, action, (own) => this.deps.engine.containerStats(id, own));
      });
      const reading = answer === undefined ? undefined : this.#withRate(container, answer);
      this.#samples.set(id, { untilMs: this.#now() + freshForMs, reading });
      this.#failed.delete(id);
      return reading;
    } catch (error) {
      signal.throwIfAborted();
      if (!request.isSent) {
        this.#failed.set(id, "requests for the statistics of other containers hang");
        throw error;
      }
      const err = messageOf(error);
      if (this.#failed.get(id) !== err)
        this.deps.log.warn({ containerId: id, err }, "cannot read the statistics of the container");
      this.#failed.set(id, err);
      if (isKind(error, "timeout"))
        this.#samples.set(id, { untilMs: this.#now() + hungForMs, reading: undefined });
      throw error;
    }
  }

  /** Waits for a place for up to `waitMs` without an answer about another container. */
  async #whenFree<T>(signal: AbortSignal, waitMs: number, request: () => Promise<T>): Promise<T> {
    const answer = await withDeadline(signal, waitMs, "wait for other requests", async (limited, restart) => {
      this.#restarts.add(restart);
      try {
        return await this.#requests.run(limited, request);
      } finally {
        this.#restarts.delete(restart);
      }
    });
    for (const restart of this.#restarts) restart();
    return answer;
  }

  #withRate(container: Snapshot, reading: EngineReading): EngineReading {
    const { resources } = reading;
    const nanoCores = this.#rate(container.id, container, resources.cpu?.usageNanoseconds);
    const { memory } = resources;
    const isLimited = container.resources.memory > 0;
    return {
      ...reading,
      resources: {
        ...resources,
        nanoCores,
        memory: memory === undefined || isLimited ? memory : { ...memory, limit: undefined },
      },
    };
  }

  #rate(key: string, { state }: Snapshot, usageNanoseconds: number | undefined): number | undefined {
    if (usageNanoseconds === undefined) return undefined;
    let known = this.#rates.get(key);
    if (known?.started !== state.started) {
      const ageMs = Math.max(Date.now() - Number(state.started / 1_000_000n), 0);
      known = { started: state.started, rate: new CpuRate(this.#now() - ageMs) };
      this.#rates.set(key, known);
    }
    return known.rate.next(usageNanoseconds, this.#now());
  }
}
