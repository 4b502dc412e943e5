import { tries } from "../../domain/reach.js";
import type { Logger } from "../../lib/log.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { StartProgram } from "../native/start-program.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { LayerUsages, StatsSource } from "../ports/stats.js";
import { CgroupStats } from "./cgroup-stats.js";
import { EngineStats } from "./engine-stats.js";
import { layerMeasurement } from "./layer-measurement.js";
import { WritableLayers } from "./writable-layers.js";

/** How often what is kept of ended containers is released. */
const forgetEveryMs = 10_000;

export interface StatsSourcesDeps {
  readonly engine: Engine;
  /** The host of the present engine connection. */
  readonly host: () => HostAccess;
  /** Containers whose writable layers are measured. */
  readonly running: () => Iterable<Snapshot>;
  readonly isRunning: (id: string) => boolean;
  /** Performs a verb of the helper. */
  readonly startVerb: StartProgram;
  readonly log: Logger;
}

/** For metrics. */
export interface StatsCounts {
  /** Descriptors of cgroup files and of pause processes that are kept for the next reading. */
  readonly keptFiles: number;
  readonly unreadableContainers: number;
  readonly measuredLayers: number;
  readonly oldestLayerSeconds: number | undefined;
}

/** Where statistics come from: the host's files or the engine, as the host allows. */
export class StatsSources {
  readonly layers: LayerUsages;
  readonly #layers: WritableLayers;
  readonly #forgetting: NodeJS.Timeout;
  #source: StatsSource;
  #byFiles: CgroupStats | undefined;

  constructor(private readonly deps: StatsSourcesDeps) {
    const { engine, host, running, isRunning, startVerb, log } = deps;
    this.#source = new EngineStats({ engine, log });
    this.#layers = new WritableLayers({
      running,
      measure: layerMeasurement({ host, engine, startVerb }),
      cpuTime: async (container) => this.#byFiles?.cpuTime(container),
      log,
    });
    this.layers = this.#layers;
    this.#layers.start();
    this.#forgetting = setInterval(() => {
      this.#source.forgetAllBut(isRunning);
    }, forgetEveryMs);
    this.#forgetting.unref();
  }

  get source(): StatsSource {
    return this.#source;
  }

  /** The host of a new engine connection: decides anew. */
  useHost(host: HostAccess): void {
    const { engine, log } = this.deps;
    this.#source.close();
    const byEngine = new EngineStats({ engine, log });
    this.#byFiles = tries(host.reach, "cgroups")
      ? new CgroupStats({ host, elsewhere: byEngine, log })
      : undefined;
    this.#source = this.#byFiles ?? byEngine;
  }

  get counts(): StatsCounts {
    const { keptFiles, unreadable } = this.#byFiles?.counts ?? { keptFiles: 0, unreadable: 0 };
    const { measured, oldestSeconds } = this.#layers.counts;
    return {
      keptFiles,
      unreadableContainers: unreadable,
      measuredLayers: measured,
      oldestLayerSeconds: oldestSeconds,
    };
  }

  async stop(): Promise<void> {
    clearInterval(this.#forgetting);
    await this.#layers.stop();
    this.#source.close();
  }
}
