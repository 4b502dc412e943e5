import { orAbort, sleep, withDeadline } from "../../lib/abort.js";
import { isKind } from "../../lib/errors.js";
import { Semaphore } from "../../lib/sync/semaphore.js";
import {
  inheritsPodType,
  mayInheritPodType,
  containerType,
  sandboxType,
  typeLabel,
} from "../../domain/labels.js";
import { listedName, type ListedContainer } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import type { ReadModel } from "./read-model.js";

export interface ResyncDeps {
  readonly engine: Pick<Engine, "listContainers" | "inspectImage">;
  readonly model: ReadModel;
  /** Has its own deadline. */
  readonly refresh: (id: string) => Promise<void>;
  readonly warnOfStale: (id: string, error: unknown) => void;
  /** Limit of the list without progress. */
  readonly listTimeoutMs: number;
  /** How long `run` waits for one refresh; a tenth of it where many are slow. */
  readonly waitMs: number;
}

/** Requests at the same time that a comparison waits for. */
const concurrency = 8;
/** Refreshes at the same time, with those that end in the background. */
const refreshesAtOnce = 32;

/** Compares the read model with the engine's list. `run` is called by one caller at a time. */
export class Resync {
  /** Ids that were found to be removed after the list was requested: the list must not bring them back. */
  #removedSinceListing = new Set<string>();
  #comparedAtMs: number | undefined;
  readonly #refreshes = new Semaphore(refreshesAtOnce);
  /** Ids of refreshes that have not begun. */
  readonly #waiting = new Set<string>();

  constructor(private readonly deps: ResyncDeps) {}

  /** When the latest list was requested, in milliseconds of `performance.now()`. */
  get comparedAtMs(): number | undefined {
    return this.#comparedAtMs;
  }

  /** A refresh found that the engine has no such container. */
  noteRemoved(id: string): void {
    this.#removedSinceListing.add(id);
  }

  /**
   * Lists, and refreshes all ids, or those that are missing, removed, stale, or in another state than in the
   * model. Waits for each refresh up to `waitMs`; slower ones end in the background, and those for which too
   * many are slow begin there.
   */
  async run(signal: AbortSignal, { only }: { readonly only: "all" | "different" }): Promise<void> {
    const { model } = this.deps;
    const startMs = performance.now();
    const extra = new Set(model.ids());
    const listed = await this.#list(signal);
    for (const { id } of listed) extra.delete(id);
    const due = listed.filter((one) => only === "all" || model.isStale(one.id) || this.#mayDiffer(one));
    for (const one of due) model.expect(one);
    // Sandboxes first: the names of containers are parsed with the identity of their pod.
    await this.#refreshAll(
      idsOf(due, (type) => type === sandboxType),
      signal,
    );
    await this.#refreshAll([...idsOf(due, (type) => type === containerType), ...extra], signal);
    this.#comparedAtMs = startMs;
  }

  /**
   * The list has the same state for a container that was never started and for one whose start failed, and a
   * failed start makes no event. Only an inspect tells of the failed start of another program.
   */
  #mayDiffer({ id, status }: ListedContainer): boolean {
    const known = this.deps.model.snapshot(id)?.state;
    return known?.status !== status || (status === "created" && known.exitCode === 0);
  }

  async #list(signal: AbortSignal): Promise<readonly ListedContainer[]> {
    const { engine, listTimeoutMs } = this.deps;
    const removed = new Set<string>();
    this.#removedSinceListing = removed;
    // The list may be long: its deadline starts again with each part that arrives.
    const listed = await withDeadline(signal, listTimeoutMs, "list containers", (limited, restart) =>
      engine.listContainers({ labelKey: typeLabel }, limited, restart),
    );
    const foreign = await this.#foreignIds(listed, signal);
    return listed.filter(({ id }) => !removed.has(id) && !foreign.has(id));
  }

  /**
   * Containers that are part of a pod only by the labels of their image. Without an answer about the image a
   * container stays in the list: it must not look removed.
   */
  async #foreignIds(listed: readonly ListedContainer[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { engine, waitMs } = this.deps;
    const foreign = new Set<string>();
    const requests = new Semaphore(concurrency);
    const named = listed.map((one) => ({ ...one, name: listedName(one) })).filter(mayInheritPodType);
    const ask = async (one: (typeof named)[number]): Promise<void> => {
      const image = await withDeadline(signal, waitMs, `inspect image ${one.imageId}`, (limited) =>
        requests.run(limited, () => engine.inspectImage(one.imageId, limited)),
      ).catch(() => undefined);
      if (inheritsPodType(one, image)) foreign.add(one.id);
    };
    await Promise.all(named.map(ask));
    signal.throwIfAborted();
    return foreign;
  }

  /**
   * Failing and slow refreshes do not delay the others; an unavailable engine ends all. Where many are slow,
   * each gets less time: hundreds of containers that hang must not keep the model from becoming live.
   */
  async #refreshAll(ids: readonly string[], signal: AbortSignal): Promise<void> {
    const { waitMs } = this.deps;
    const queue = ids.values();
    let slow = 0;
    const worker = async (): Promise<void> => {
      for (const id of queue) {
        const isSlow = await this.#isSlow(id, slow < concurrency ? waitMs : waitMs / 10, signal);
        if (isSlow) slow += 1;
      }
    };
    await Promise.all(Array.from({ length: concurrency }, worker));
  }

  /** Refreshes; whether it has not ended in time. */
  async #isSlow(id: string, waitMs: number, signal: AbortSignal): Promise<boolean> {
    const { warnOfStale } = this.deps;
    const ended = this.#refresh(id, signal).then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    const timer = new AbortController();
    const tooSlow = sleep(waitMs, timer.signal).then(
      () => "tooSlow" as const,
      () => "tooSlow" as const,
    );
    try {
      const first = await orAbort(Promise.race([ended, tooSlow]), signal);
      if (first === undefined) return false;
      if (first !== "tooSlow") {
        if (isKind(first.error, "unavailable")) throw first.error;
        warnOfStale(id, first.error);
        return false;
      }
    } finally {
      timer.abort();
    }
    void ended.then((failure) => {
      if (failure !== undefined && !signal.aborted) warnOfStale(id, failure.error);
    });
    return true;
  }

  /** Begins when fewer than `refreshesAtOnce` are under way; never after the end of `signal`. */
  async #refresh(id: string, signal: AbortSignal): Promise<void> {
    // That of an earlier comparison begins after this call, too.
    if (this.#waiting.has(id)) return;
    this.#waiting.add(id);
    try {
      await this.#refreshes.run(signal, () => {
        this.#waiting.delete(id);
        return this.deps.refresh(id);
      });
    } finally {
      this.#waiting.delete(id);
    }
  }
}

function idsOf(
  listed: readonly ListedContainer[],
  isWanted: (type: string | undefined) => boolean,
): readonly string[] {
  return listed.filter(({ labels }) => isWanted(labels[typeLabel])).map(({ id }) => id);
}
