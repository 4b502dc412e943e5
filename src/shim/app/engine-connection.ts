/** The engine's host as the latest connect found it, and what depends on it. */
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { isSameEngine, type NodeFacts } from "../../domain/node-facts.js";
import { hasNetworks, type Reach, tries } from "../../domain/reach.js";
import type { Snapshot } from "../../domain/snapshot.js";
import { EngineHost, type EngineHostDeps, requireReach, unknownHost } from "../host/engine-host.js";
import type { EngineProcesses } from "../host/processes/engine-processes.js";
import type { HostOomScores } from "../host/processes/oom-scores.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import type { ReadModel } from "../state/read-model.js";
import { StatsSources, type StatsSourcesDeps } from "../stats/stats-sources.js";
import { readOnlyHost } from "./read-only.js";

export interface EngineConnectionDeps
  extends Pick<EngineHostDeps, "mode" | "directory" | "hostPaths">, Pick<StatsSourcesDeps, "startVerb"> {
  readonly engine: Engine;
  readonly model: ReadModel;
  readonly network: NetworkPlugin;
  readonly oomScores: HostOomScores;
  readonly engineProcesses: EngineProcesses;
  readonly readOnly: boolean;
  readonly log: Logger;
}

/** What a connect found. */
interface Connect {
  readonly facts: NodeFacts;
  readonly engineHost: EngineHost;
}

export class EngineConnection {
  readonly stats: StatsSources;
  readonly #stopping = new AbortController();
  #latest: Connect | undefined;
  #host: HostAccess;
  #nodePrepared = Promise.resolve();

  constructor(private readonly deps: EngineConnectionDeps) {
    const { engine, model, startVerb, log } = deps;
    this.#host = unknownHost(deps.mode);
    this.stats = new StatsSources({
      engine,
      startVerb,
      host: () => this.host,
      *running() {
        for (const { snapshot } of model.containers()) if (snapshot.state.running) yield snapshot;
      },
      isRunning: (id) => model.snapshot(id)?.state.running === true,
      log,
    });
  }

  /** Before the first connect nothing of it is in reach. */
  get host(): HostAccess {
    return this.#host;
  }

  /** Resolves when the network plugin has prepared the node, or has failed for the first time. */
  get nodePrepared(): Promise<void> {
    return this.#nodePrepared;
  }

  /** To be called at each connect, before the containers are read. Afterwards `host` is the engine's host. */
  async connected(facts: NodeFacts, signal: AbortSignal): Promise<void> {
    const { readOnly } = this.deps;
    const engineHost = await EngineHost.connected(facts, this.deps, signal);
    requireReach(engineHost.reach);
    // The next connect may have happened meanwhile.
    signal.throwIfAborted();
    const before = this.#latest;
    this.#latest = { facts, engineHost };
    this.#host = readOnly ? readOnlyHost(engineHost.host) : engineHost.host;
    const isSame =
      before !== undefined &&
      isSameEngine(before.facts, facts) &&
      tries(before.engineHost.reach, "cgroups") === tries(engineHost.reach, "cgroups");
    // After a short break of the link the open files and rates of the statistics stay valid.
    if (!isSame) this.stats.useHost(engineHost.host);
    await this.#useNode(engineHost.reach, signal);
    signal.throwIfAborted();
  }

  /** To be told of each container: one that runs can prove more of the reach. */
  observe(container: Snapshot | undefined): void {
    const { signal } = this.#stopping;
    this.#prove(container, signal).catch((error: unknown) => {
      if (signal.aborted) return;
      this.deps.log.warn({ err: messageOf(error) }, "cannot examine the engine's host");
    });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.stats.stop();
  }

  async #prove(container: Snapshot | undefined, signal: AbortSignal): Promise<void> {
    const engineHost = this.#latest?.engineHost;
    const hasChanged = await engineHost?.observe(container, signal);
    if (engineHost === undefined || hasChanged !== true || engineHost !== this.#latest?.engineHost) return;
    if (!tries(engineHost.reach, "cgroups")) this.stats.useHost(engineHost.host);
    await this.#useNode(engineHost.reach, signal);
  }

  async #useNode(reach: Reach, signal: AbortSignal): Promise<void> {
    const { network, oomScores, engineProcesses, readOnly } = this.deps;
    const defaultNetwork = await this.#hasDefaultNetwork(signal);
    this.#nodePrepared = network.engineFound({ local: hasNetworks(reach), defaultNetwork });
    if (!reach.host || !tries(reach, "processes")) return;
    await oomScores.detect();
    // They get an OOM score and a cgroup.
    if (!readOnly) engineProcesses.start();
  }

  /** Asked only where pods are on it. An engine that does not say so, as behind a filter, is taken to have it. */
  async #hasDefaultNetwork(signal: AbortSignal): Promise<boolean> {
    const { engine, network, log } = this.deps;
    if (network.dockerNetworkMode !== "default") return true;
    try {
      return await engine.hasDefaultNetwork(signal);
    } catch (error) {
      signal.throwIfAborted();
      log.debug({ err: messageOf(error) }, "cannot list the engine's networks");
      return true;
    }
  }
}
