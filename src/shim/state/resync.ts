import { orAbort, sleep, withDeadline } from "../lib/abort.js";
import { isKind } from "../lib/errors.js";
import {
  inheritsPodType,
  mayInheritPodType,
  containerType,
  sandboxType,
  typeLabel,
} from "../domain/labels.js";
import { listedName, type ListedContainer } from "../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import type { ReadModel } from "./read-model.js";

export interface ResyncDeps {
  readonly engine: Pick<Engine, "listContainers" | "inspectImage">;
  readonly model: ReadModel;
  /** Has limits of its own. */
  readonly refresh: (id: string) => Promise<void>;
  readonly warnOfStale: (id: string, error: unknown) => void;
  /** How long the list may stand still. */
  readonly listTimeoutMs: number;
  /** How long one refresh is waited for. */
  readonly patienceMs: number;
}

/** Refreshes that are waited for at the same time. */
const width = 8;

/** The comparison of the read model with the engine's list. Runs one at a time. */
export class Resync {
  /** What turned out to be gone since the list was asked for: it must not come back because an older list has it. */
  #goneSinceListing = new Set<string>();
  #comparedAtMs: number | undefined;

  constructor(private readonly deps: ResyncDeps) {}

  /** When the list was asked for that the model was compared with last, in milliseconds of `performance.now()`. */
  get comparedAtMs(): number | undefined {
    return this.#comparedAtMs;
  }

  /** A refresh found that the engine has no such container. */
  noteGone(id: string): void {
    this.#goneSinceListing.add(id);
  }

  /**
   * Lists, and refreshes every id, or those that are missing, extra, stale, or in another state than the model has it.
   * Returns when each has been answered or has had its time; slow ones then go on in the background.
   */
  async run(signal: AbortSignal, { only }: { readonly only: "all" | "different" }): Promise<void> {
    const { model } = this.deps;
    const startMs = performance.now();
    const extra = new Set(model.ids());
    const listed = await this.#list(signal);
    for (const { id } of listed) extra.delete(id);
    const due = listed.filter(
      ({ id, status }) => only === "all" || model.isStale(id) || model.snapshot(id)?.state.status !== status,
    );
    for (const one of due) model.expect(one);
    // Names of containers are read with the help of their sandbox.
    await this.#refreshAll(
      idsOf(due, (type) => type === sandboxType),
      signal,
    );
    await this.#refreshAll([...idsOf(due, (type) => type === containerType), ...extra], signal);
    this.#comparedAtMs = startMs;
  }

  async #list(signal: AbortSignal): Promise<readonly ListedContainer[]> {
    const { engine, listTimeoutMs } = this.deps;
    const gone = new Set<string>();
    this.#goneSinceListing = gone;
    // Tenants decide how long it is: what counts is that it arrives.
    const listed = await withDeadline(signal, listTimeoutMs, "list containers", (limited, restart) =>
      engine.listContainers({ labelKey: typeLabel }, limited, restart),
    );
    const claims = await this.#imageClaims(listed, signal);
    return listed.filter(({ id }) => !gone.has(id) && !claims.has(id));
  }

  /** Those that are no parts of pods. One whose image cannot be asked is none: it must not seem to be gone. */
  async #imageClaims(listed: readonly ListedContainer[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { engine, patienceMs } = this.deps;
    const claims = new Set<string>();
    const named = listed.map((one) => ({ ...one, name: listedName(one) })).filter(mayInheritPodType);
    const ask = async (one: (typeof named)[number]): Promise<void> => {
      const image = await withDeadline(signal, patienceMs, `inspect image ${one.imageId}`, (limited) =>
        engine.inspectImage(one.imageId, limited),
      ).catch(() => undefined);
      if (inheritsPodType(one, image)) claims.add(one.id);
    };
    await Promise.all(named.map(ask));
    signal.throwIfAborted();
    return claims;
  }

  /** Neither a failing nor a slow refresh holds back the rest; an engine that is gone ends everything. */
  async #refreshAll(ids: readonly string[], signal: AbortSignal): Promise<void> {
    const queue = ids.values();
    const worker = async (): Promise<void> => {
      for (const id of queue) await this.#refreshPatiently(id, signal);
    };
    await Promise.all(Array.from({ length: width }, worker));
  }

  async #refreshPatiently(id: string, signal: AbortSignal): Promise<void> {
    const { refresh, warnOfStale, patienceMs } = this.deps;
    const ended = refresh(id).then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    const patience = new AbortController();
    const tooSlow = sleep(patienceMs, patience.signal).then(
      () => "tooSlow" as const,
      () => "tooSlow" as const,
    );
    try {
      const first = await orAbort(Promise.race([ended, tooSlow]), signal);
      if (first === undefined) return;
      if (first !== "tooSlow") {
        if (isKind(first.error, "unavailable")) throw first.error;
        warnOfStale(id, first.error);
        return;
      }
    } finally {
      patience.abort();
    }
    void ended.then((failure) => {
      if (failure !== undefined) warnOfStale(id, failure.error);
    });
  }
}

function idsOf(
  listed: readonly ListedContainer[],
  isWanted: (type: string | undefined) => boolean,
): readonly string[] {
  return listed.filter(({ labels }) => isWanted(labels[typeLabel])).map(({ id }) => id);
}
