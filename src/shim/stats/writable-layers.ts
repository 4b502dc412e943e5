/** Sizes of writable layers, measured in the background: one at a time, at a fixed interval. */
import { sleep } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { type Nanoseconds, nowNanoseconds } from "../../lib/time.js";
import type { Logger } from "../../lib/log.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { LayerUsage, LayerUsages } from "../ports/stats.js";
import type { MeasuredLayer, MeasureLayer } from "./layer-measurement.js";

/** Interval of rounds. */
const tickMs = 2_000;
/** Between two measurements of a layer. */
const intervalMs = 30_000;
/** Interval for a container that has used no CPU time. Only `docker cp` can have written to it. */
const sleepingMs = 240_000;
/** The engine walks a layer at full speed: it is asked rarely. */
const engineMs = 300_000;
/** A measurement takes at most this part of the time until the next one, unless that would be too late. */
const partOfTime = 100;
const longestMs = 1_200_000;
/** How long a measurement that is under way may take to end when all is to end. */
const endingMs = 1_000;

export interface WritableLayersOptions {
  /** The containers whose layers are of interest. */
  readonly running: () => Iterable<Snapshot>;
  /** Ends when its signal aborts, unless the disk hangs. */
  readonly measure: MeasureLayer;
  /** Nanoseconds of CPU time that a container has used. */
  readonly cpuTime?: (container: Snapshot) => Promise<number | undefined>;
  readonly log: Pick<Logger, "debug" | "warn">;
  readonly now?: () => number;
}

interface Entry {
  readonly usage: MeasuredLayer | undefined;
  /** When the measurement began, and the CPU time of the container then; undefined if it was not whole. */
  readonly beganAtMs: number;
  readonly cpuTime: number | undefined;
  readonly dueAtMs: number;
}

export class WritableLayers implements LayerUsages {
  readonly #entries = new Map<string, Entry>();
  readonly #stop = new AbortController();
  readonly #now: () => number;
  #running: Promise<void> | undefined;

  constructor(private readonly options: WritableLayersOptions) {
    this.#now = options.now ?? (() => performance.now());
  }

  usageOf(containerId: string): LayerUsage | undefined {
    return this.#entries.get(containerId)?.usage;
  }

  /** For metrics: layers whose size is known, and seconds since the oldest of these sizes was measured. */
  get counts(): { readonly measured: number; readonly oldestSeconds: number | undefined } {
    const times = [...this.#entries.values()].flatMap(({ usage }) =>
      usage === undefined ? [] : [usage.timestamp],
    );
    const oldest = times.reduce<Nanoseconds | undefined>(
      (least, time) => (least === undefined || time < least ? time : least),
      undefined,
    );
    const oldestSeconds = oldest === undefined ? undefined : Number(nowNanoseconds() - oldest) / 1e9;
    return { measured: times.length, oldestSeconds };
  }

  start(): void {
    this.#running ??= this.#loop();
  }

  /** A measurement that a disk holds up ends with the disk. */
  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "stopped"));
    const ended = new AbortController();
    await Promise.race([this.#running, sleep(endingMs, ended.signal).catch(() => undefined)]);
    ended.abort();
  }

  /** Measures what is due, one layer after the other, those without a measurement first. Never throws. */
  async round(): Promise<void> {
    for (let next = this.#next(); next !== undefined; next = this.#next()) await this.#measure(next);
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.round();
      await sleep(tickMs, signal).catch(() => undefined);
    }
  }

  /** Also forgets what does not run any more. */
  #next(): Snapshot | undefined {
    const running = new Map([...this.options.running()].map((container) => [container.id, container]));
    for (const id of this.#entries.keys()) if (!running.has(id)) this.#entries.delete(id);
    if (this.#stop.signal.aborted) return undefined;
    const dueAtMs = ({ id }: Snapshot): number => this.#entries.get(id)?.dueAtMs ?? -Infinity;
    const [first] = [...running.values()].sort((one, other) => dueAtMs(one) - dueAtMs(other));
    return first !== undefined && dueAtMs(first) <= this.#now() ? first : undefined;
  }

  /** Never throws. */
  async #measure(container: Snapshot): Promise<void> {
    const known = this.#entries.get(container.id);
    const cpuTime = await this.options.cpuTime?.(container).catch(() => undefined);
    const beganAtMs = this.#now();
    if (
      known?.cpuTime !== undefined &&
      known.cpuTime === cpuTime &&
      beganAtMs < known.beganAtMs + sleepingMs
    ) {
      this.#entries.set(container.id, { ...known, dueAtMs: beganAtMs + intervalMs });
      return;
    }
    const usage = await this.#size(container);
    if (usage?.isPartial === true && known?.usage?.isPartial !== true)
      this.options.log.warn(
        { containerId: container.id },
        "not all of the writable layer was counted, its size is a lower bound",
      );
    const endedAtMs = this.#now();
    const leastMs = usage !== undefined && usage.inodes === undefined ? engineMs : intervalMs;
    const restMs = Math.min(Math.max(leastMs, (endedAtMs - beganAtMs) * partOfTime), longestMs);
    this.#entries.set(container.id, {
      // After a failure the last size stays.
      usage: usage === undefined ? known?.usage : atLeast(known?.usage, usage),
      beganAtMs,
      // Without a whole measurement the CPU time does not tell whether the layer has changed.
      cpuTime: usage?.isPartial === false ? cpuTime : undefined,
      dueAtMs: endedAtMs + restMs,
    });
  }

  async #size(container: Snapshot): Promise<MeasuredLayer | undefined> {
    try {
      return await this.options.measure(container, this.#stop.signal);
    } catch (error) {
      if (!this.#stop.signal.aborted)
        this.options.log.debug(
          { containerId: container.id, err: messageOf(error) },
          "cannot size the writable layer",
        );
      return undefined;
    }
  }
}

/**
 * The size after a partial measurement is the larger one of what it counted and of the last size: a container
 * must not appear smaller by making its layer hard to count.
 */
function atLeast(known: LayerUsage | undefined, measured: MeasuredLayer): MeasuredLayer {
  if (!measured.isPartial || known === undefined) return measured;
  const inodes =
    known.inodes === undefined || measured.inodes === undefined
      ? measured.inodes
      : Math.max(known.inodes, measured.inodes);
  return { ...measured, usedBytes: Math.max(known.usedBytes, measured.usedBytes), inodes };
}
