/** How the size of a writable layer is found out. */
import { withDeadline } from "../lib/abort.js";
import { nowNanoseconds } from "../lib/time.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import { Pace, walkLayer } from "./layer-walk.js";
import type { MeasureLayer } from "./writable-layers.js";

/** Of all walks together. A walk of 100,000 files takes 20 s then, and a fifth of a core during that time on a slow one. */
const entriesPerSecond = 5_000;
/** The engine walks at full speed; in that time it gets through millions of files. */
const engineLimitMs = 60_000;

export interface MeasureLayerDeps {
  readonly host: () => Pick<HostAccess, "writableLayer">;
  readonly engine: Pick<Engine, "writableLayerBytes">;
  readonly engineLimitMs?: number;
}

/** By a walk where the layer's directory is in reach, else by the engine. */
export function layerMeasurement({ host, engine, ...limits }: MeasureLayerDeps): MeasureLayer {
  const pace = new Pace({ entriesPerSecond });
  const timeoutMs = limits.engineLimitMs ?? engineLimitMs;
  return async (container, signal) => {
    const directory = await host().writableLayer(container);
    if (directory !== undefined) return walkLayer(directory, pace, signal);
    const { id } = container;
    const usedBytes = await withDeadline(signal, timeoutMs, `size container "${id}"`, (linked) =>
      engine.writableLayerBytes(id, linked),
    );
    return usedBytes === undefined
      ? undefined
      : { timestamp: nowNanoseconds(), usedBytes, inodes: undefined };
  };
}
