/** The size of a writable layer: counted by the helper where its directory is in reach, else by the engine. */
import { withDeadline } from "../../lib/abort.js";
import { isKind, ShimError } from "../../lib/errors.js";
import { nowNanoseconds } from "../../lib/time.js";
import type { Snapshot } from "../../domain/snapshot.js";
import { runProgram } from "../native/run-program.js";
import type { StartProgram } from "../native/start-program.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { LayerUsage } from "../ports/stats.js";

export interface MeasuredLayer extends LayerUsage {
  /** Not everything was counted: the size is a lower bound. */
  readonly isPartial: boolean;
}

/** Undefined: there is nothing to be measured (now). */
export type MeasureLayer = (container: Snapshot, signal: AbortSignal) => Promise<MeasuredLayer | undefined>;

export interface LayerMeasurementDeps {
  readonly host: () => Pick<HostAccess, "writableLayer">;
  readonly engine: Pick<Engine, "writableLayerBytes">;
  /** Performs a verb of the helper. */
  readonly startVerb: StartProgram;
  /** Deadline of the engine, which walks millions of files in a minute. */
  readonly engineLimitMs?: number;
}

/** Then the helper tells what it has counted. The layers of other containers wait so long. */
const limitMs = 60_000;
/** A disk that does not answer holds the helper's process up: none is added to it. */
const deathMs = 24 * 3_600_000;
const outputBytes = 1024;

export function layerMeasurement(deps: LayerMeasurementDeps): MeasureLayer {
  return async (container, signal) => {
    const directory = await deps.host().writableLayer(container);
    try {
      if (directory !== undefined) return await byHelper(directory, deps.startVerb, signal);
    } catch (error) {
      if (!isKind(error, "unsupported")) throw error;
    }
    return byEngine(container, deps, signal);
  };
}

/** Undefined when the directory is gone. `unsupported` without a helper. */
export async function byHelper(
  directory: string,
  startVerb: StartProgram,
  signal: AbortSignal,
  timeoutMs = limitMs,
): Promise<MeasuredLayer | undefined> {
  const request = { program: "disk-usage", words: [directory, String(timeoutMs)], environment: {} };
  const limits = { stdoutBytes: outputBytes, stderrBytes: outputBytes, deathMs };
  const { exitCode, stdout } = await runProgram(startVerb, request, { ...limits, input: "", signal });
  if (exitCode === 0 && stdout === "") return undefined;
  const [, bytes, files, how] = /^(\d+) (\d+) (whole|partial)\n$/.exec(stdout) ?? [];
  if (how === undefined) throw new ShimError("unknown", `size directory "${directory}": it cannot be read`);
  const usage = { timestamp: nowNanoseconds(), usedBytes: Number(bytes), inodes: Number(files) };
  return { ...usage, isPartial: how === "partial" };
}

async function byEngine(
  { id }: Snapshot,
  { engine, engineLimitMs = limitMs }: LayerMeasurementDeps,
  signal: AbortSignal,
): Promise<MeasuredLayer | undefined> {
  const usedBytes = await withDeadline(signal, engineLimitMs, `size container "${id}"`, (linked) =>
    engine.writableLayerBytes(id, linked),
  );
  if (usedBytes === undefined) return undefined;
  return { timestamp: nowNanoseconds(), usedBytes, inodes: undefined, isPartial: false };
}
