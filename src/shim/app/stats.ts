/** Where statistics come from: the host's files or the engine, as the host allows. */
import type { Lifetime } from "../lib/lifetime.js";
import type { Logger } from "../lib/log.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { LayerUsages, StatsSource } from "../ports/stats.js";
import type { ReadModel } from "../state/read-model.js";
import { CgroupStats } from "../stats/cgroup-stats.js";
import { EngineStats } from "../stats/engine-stats.js";
import { layerMeasurement, WritableLayers } from "../stats/writable-layers.js";

/** How often what is kept of containers that have ended is let go of. */
const forgetEveryMs = 10_000;

export interface OpenStats {
  readonly stats: () => StatsSource;
  readonly layers: LayerUsages;
  /** The host of a new engine connection: decides anew. */
  readonly useHost: (host: HostAccess) => void;
  readonly counts: () => StatsCounts;
}

/** For metrics. */
export interface StatsCounts {
  /** Descriptors of cgroup files and of pause processes that are kept for the next reading. */
  readonly keptFiles: number;
  readonly unreadableContainers: number;
  readonly measuredLayers: number;
  readonly oldestLayerSeconds: number | undefined;
}

/** `host` is asked at each measurement of a layer. */
export function openStats(
  {
    engine,
    model,
    host,
    log,
  }: {
    readonly engine: Engine;
    readonly model: ReadModel;
    readonly host: () => HostAccess;
    readonly log: Logger;
  },
  lifetime: Lifetime,
): OpenStats {
  let source: StatsSource = new EngineStats({ engine, log });
  let byFiles: CgroupStats | undefined;
  const layers = new WritableLayers({
    running: () => runningContainers(model),
    measure: layerMeasurement({ host, engine }),
    cpuTime: async (container) => byFiles?.cpuTime(container),
    log,
  });
  layers.start();
  const forgetting = setInterval(() => {
    source.forgetAllBut((id) => model.snapshot(id)?.state.running === true);
  }, forgetEveryMs);
  forgetting.unref();
  lifetime.onClose("statistics", async () => {
    clearInterval(forgetting);
    await layers.stop();
    source.close();
  });
  return {
    stats: () => source,
    layers,
    useHost: (chosen) => {
      source.close();
      const byEngine = new EngineStats({ engine, log });
      byFiles = chosen.local ? new CgroupStats({ host: chosen, elsewhere: byEngine, log }) : undefined;
      source = byFiles ?? byEngine;
    },
    counts: () => {
      const { keptFiles, unreadable } = byFiles?.counts ?? { keptFiles: 0, unreadable: 0 };
      const { measured, oldestSeconds } = layers.counts;
      return {
        ...{ keptFiles, unreadableContainers: unreadable },
        ...{ measuredLayers: measured, oldestLayerSeconds: oldestSeconds },
      };
    },
  };
}

function* runningContainers(model: ReadModel): Iterable<Snapshot> {
  for (const { snapshot } of model.containers()) if (snapshot.state.running) yield snapshot;
}
