/** Sizes of writable layers, measured in the background: rarely where nothing changes. */
import { sleep, withDeadline } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { type Nanoseconds, nowNanoseconds } from "../../lib/time.js";
import type { Logger } from "../../lib/log.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { LayerUsage, LayerUsages } from "../ports/stats.js";
import { type MeasuredLayer, Pace, walkLayer } from "./layer-walk.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";

/** Interval of rounds. */
const tickMs = 2_000;
/** After the first measurement: containers write most when they begin. */
const secondMs = 10_000;
/** Between two later measurements of a layer that changes. A kubelet's own ones are a minute apart. */
const shortestMs = 30_000;
/** Of one that did not change, in the end. */
const longestUnchangedMs = 240_000;
/**
 * A measurement may take at most this part of the time until the next one: big layers are measured rarely.
 */
const partOfTime = 100;
const longestMs = 1_200_000;
/** The engine walks a layer at full speed: it is asked rarely. */
const shortestOfEngineMs = 300_000;

/** The other measurements wait this long for one, then they continue beside it. */
const waitMs = 10_000;
/**
 * Measurements that continue beside the others: each remembers directories of its layer, which takes memory.
 */
const maxSlow = 2;
/** The time of a measurement while there are as many slow ones; then it is given up until its next turn. */
const waitWhenFullMs = 60_000;
/** Time to end after it was given up. */
const endingMs = 1_000;
/** Limit of a slow measurement. */
const limitMs = 7_200_000;

/** Undefined: there is nothing to be measured (now). Ends when its signal aborts. */
type MeasureLayer = (container: Snapshot, signal: AbortSignal) => Promise<MeasuredLayer | undefined>;

export interface WritableLayersOptions {
  /** The containers whose layers are of interest. */
  readonly running: () => Iterable<Snapshot>;
  readonly measure: MeasureLayer;
  /** Nanoseconds of CPU time that a container has used: one that has used none has written nothing. */
  readonly cpuTime?: (container: Snapshot) => Promise<number | undefined>;
  readonly log: Pick<Logger, "debug" | "warn">;
  readonly now?: () => number;
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

interface UnderWay {
  readonly stop: AbortController;
  ended: Promise<void>;
}

interface Entry {
  readonly usage: MeasuredLayer | undefined;
  /** When the measurement began, and the CPU time of the container then. */
  readonly beganAtMs: number;
  readonly cpuTime: number | undefined;
  readonly intervalMs: number;
  readonly dueAtMs: number;
}

export class WritableLayers implements LayerUsages {
  readonly #entries = new Map<string, Entry>();
  /** The one that is waited for, and those that were begun before and have not ended. */
  readonly #underWay = new Map<string, UnderWay>();
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

  async stop(): Promise<void> {
    const reason = new ShimError("cancelled", "stopped");
    this.#stop.abort(reason);
    const underWay = [...this.#underWay.values()];
    for (const { stop } of underWay) stop.abort(reason);
    await Promise.all([this.#running, ...underWay.map(({ ended }) => ended)]);
  }

  /**
   * Measures what is due, one layer after the other, for as long as none of them takes long. Never throws.
   */
  async round(): Promise<void> {
    const running = new Map([...this.options.running()].map((container) => [container.id, container]));
    for (const id of this.#entries.keys()) if (!running.has(id)) this.#entries.delete(id);
    for (const [id, { stop }] of this.#underWay) {
      if (!running.has(id)) stop.abort(new ShimError("cancelled", "the container has ended"));
    }
    for (const container of this.#due(running.values())) {
      // There are more only when some ignore their signal, as on a disk that hangs.
      if (this.#stop.signal.aborted || this.#underWay.size > maxSlow) return;
      if (await this.#hasSlept(container)) continue;
      const startMs = this.#now();
      await this.#measure(container);
      // The next round begins with the containers that have come meanwhile.
      if (this.#now() - startMs > tickMs) return;
    }
  }

  /** Layers without a measurement first, then those that always failed, then by waiting time. */
  #due(running: Iterable<Snapshot>): readonly Snapshot[] {
    const nowMs = this.#now();
    const rank = ({ id }: Snapshot): number => {
      const known = this.#entries.get(id);
      if (known === undefined) return -2;
      return known.usage === undefined ? -1 : known.dueAtMs;
    };
    return [...running]
      .filter(({ id }) => !this.#underWay.has(id) && (this.#entries.get(id)?.dueAtMs ?? 0) <= nowMs)
      .sort((one, other) => rank(one) - rank(other));
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.round();
      await sleep(tickMs, signal).catch(() => undefined);
    }
  }

  /** The layer of a sleeping container is measured rarely: `docker cp` can write to it, too. */
  async #hasSlept(container: Snapshot): Promise<boolean> {
    const known = this.#entries.get(container.id);
    if (known?.usage === undefined || known.cpuTime === undefined) return false;
    const dueAtMs = known.beganAtMs + longestUnchangedMs;
    if (dueAtMs <= this.#now() || (await this.#cpuTime(container)) !== known.cpuTime) return false;
    this.#entries.set(container.id, { ...known, intervalMs: longestUnchangedMs, dueAtMs });
    return true;
  }

  /** Never throws. */
  async #cpuTime(container: Snapshot): Promise<number | undefined> {
    return this.options.cpuTime?.(container).catch(() => undefined);
  }

  /** Waits until the layer is measured, or until the others must not wait any longer. */
  async #measure(container: Snapshot): Promise<void> {
    const { id } = container;
    const stop = new AbortController();
    const own: UnderWay = { stop, ended: Promise.resolve() };
    const isFull = this.#underWay.size >= maxSlow;
    this.#underWay.set(id, own);
    own.ended = this.#size(container, this.#entries.get(id), stop.signal).then((entry) => {
      this.#underWay.delete(id);
      this.#entries.set(id, entry);
    });
    await this.#wait(own, isFull ? waitWhenFullMs : waitMs);
    if (!isFull || this.#underWay.get(id) !== own) return;
    stop.abort(new ShimError("timeout", `not finished after ${waitWhenFullMs / 1000}s`));
    await this.#wait(own, endingMs);
  }

  async #wait({ ended }: UnderWay, ms: number): Promise<void> {
    const waiting = new AbortController();
    const passed = (this.options.pause ?? sleep)(ms, waiting.signal).catch(() => undefined);
    await Promise.race([ended, passed]);
    waiting.abort();
  }

  /** Logged once, until a measurement is whole again. */
  #reportShortfall(containerId: string, known: Entry | undefined, reason: string): void {
    if (known?.usage?.shortfall !== undefined) return;
    this.options.log.warn(
      { containerId, reason },
      "not all of the writable layer was counted, its size is a lower bound",
    );
  }

  /** Never throws. */
  async #size(container: Snapshot, known: Entry | undefined, signal: AbortSignal): Promise<Entry> {
    const cpuTime = await this.#cpuTime(container);
    const startMs = this.#now();
    let usage: MeasuredLayer | undefined;
    try {
      usage = await withDeadline(signal, limitMs, "size the writable layer", (linked) =>
        this.options.measure(container, linked),
      );
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        const err = messageOf(error);
        this.options.log.debug({ containerId: container.id, err }, "cannot size the writable layer");
      }
    }
    const endMs = this.#now();
    const intervalMs = nextInterval(known, usage, endMs - startMs);
    const isWanted = !isKind(signal.reason, "cancelled");
    if (usage?.shortfall !== undefined && isWanted) {
      this.#reportShortfall(container.id, known, usage.shortfall);
    }
    return {
      // After a failure the last size stays.
      usage: usage === undefined ? known?.usage : atLeast(known?.usage, usage),
      beganAtMs: startMs,
      // Without a whole measurement the CPU time does not tell whether the layer has changed.
      cpuTime: usage === undefined || usage.shortfall !== undefined ? undefined : cpuTime,
      intervalMs,
      dueAtMs: endMs + intervalMs,
    };
  }
}

/**
 * The size after a partial measurement is the larger one of what it counted and of the last size: a container
 * must not appear smaller by making its layer hard to count.
 */
function atLeast(known: LayerUsage | undefined, measured: MeasuredLayer): MeasuredLayer {
  if (measured.shortfall === undefined || known === undefined) return measured;
  const inodes =
    known.inodes === undefined || measured.inodes === undefined
      ? measured.inodes
      : Math.max(known.inodes, measured.inodes);
  return { ...measured, usedBytes: Math.max(known.usedBytes, measured.usedBytes), inodes };
}

function nextInterval(known: Entry | undefined, usage: LayerUsage | undefined, tookMs: number): number {
  const doubled = known === undefined ? secondMs : known.intervalMs * 2;
  const isUnchanged =
    usage !== undefined && known?.usage?.usedBytes === usage.usedBytes && known.usage.inodes === usage.inodes;
  const byChange =
    usage === undefined
      ? Math.min(doubled, longestMs)
      : isUnchanged
        ? Math.min(doubled, longestUnchangedMs)
        : known === undefined
          ? secondMs
          : shortestMs;
  const isEngines = usage !== undefined && usage.inodes === undefined;
  return Math.min(Math.max(byChange, tookMs * partOfTime, isEngines ? shortestOfEngineMs : 0), longestMs);
}

/** Of all walks. 100,000 files take 20 s then, with a fifth of a core of a slow machine. */
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
