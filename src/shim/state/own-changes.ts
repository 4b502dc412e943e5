import { LruMap } from "../../lib/lru-map.js";
import type { EngineEvent } from "../ports/engine.js";
import type { ReadModel } from "./read-model.js";

export interface OwnChangesDeps {
  readonly model: Pick<ReadModel, "has" | "isStale" | "snapshot">;
  /** The event was not answered: its container has to be inspected. */
  readonly refresh: (id: string) => void;
  /** Whether an inspect of the container is under way, whose answer may be older than the event. */
  readonly isRefreshing: (id: string) => boolean;
}

export interface OwnChangesOptions {
  /** How long an event waits for a change that does not end, such as a stop with a long grace period. */
  readonly holdMs: number;
  /** How long after the end of a change its events may still arrive. */
  readonly lingerMs: number;
}

export const defaultOwnChangesOptions: OwnChangesOptions = { holdMs: 1_000, lingerMs: 2_000 };

/** Names of ended changes that are remembered. */
const capacity = 1_000;

/**
 * Events of containers that a running call changes. The call refreshes the container at its end, so an
 * inspect because of the event would be a second one, and would compete with the call.
 *
 * An event is answered when an inspect that began after its arrival has succeeded, or when the model already
 * has the state that the event tells of and no inspect is under way. The second rule is for events that arrive
 * during or after the call's own inspect. It is sound because each way from a state back to the same state
 * passes through another one, whose event begins an inspect. It is limited to containers of own changes,
 * because an event that is lost on such a way would break it.
 */
export class OwnChanges {
  /** Docker name → how many calls change that container. */
  readonly #running = new Map<string, number>();
  /** Docker name → when its last change ended, in milliseconds of `performance.now()`. */
  readonly #ended = new LruMap<string, number>(capacity);
  /** With the end of their wait, if it has one before that of the change. */
  readonly #held = new Map<EngineEvent, NodeJS.Timeout | undefined>();

  constructor(
    private readonly deps: OwnChangesDeps,
    private readonly options: OwnChangesOptions = defaultOwnChangesOptions,
  ) {}

  /** A call begins to change the container of this Docker name; the change ends with `dispose`. */
  begin(name: string): Disposable {
    this.#running.set(name, (this.#running.get(name) ?? 0) + 1);
    return { [Symbol.dispose]: () => this.#end(name) };
  }

  /** Whether the event needs no inspect now. When it needs one later, `refresh` is called. */
  takes(event: EngineEvent): boolean {
    const { name } = event;
    if (name === undefined) return false;
    if (this.#running.has(name)) {
      // That of a sandbox which starts: dozens of pods that start at once take longer than any other wait, and an
      // inspect would wait in the engine for the end of the start.
      const waitsForEnd = event.action === "create";
      const refresh = (): void => {
        if (this.#held.delete(event)) this.deps.refresh(event.id);
      };
      this.#held.set(event, waitsForEnd ? undefined : setTimeout(refresh, this.options.holdMs).unref());
      return true;
    }
    const endedAtMs = this.#ended.get(name);
    if (endedAtMs === undefined || performance.now() - endedAtMs > this.options.lingerMs) return false;
    return this.#isKnown(event);
  }

  /** An inspect of the container begins. The caller calls the result when it has succeeded. */
  inspectBegins(id: string): () => void {
    const answered = [...this.#held.keys()].filter((event) => event.id === id);
    return () => {
      for (const event of answered) this.#drop(event);
    };
  }

  /** Drops the events that wait. */
  stop(): void {
    for (const event of [...this.#held.keys()]) this.#drop(event);
  }

  #end(name: string): void {
    const left = (this.#running.get(name) ?? 1) - 1;
    if (left > 0) {
      this.#running.set(name, left);
      return;
    }
    this.#running.delete(name);
    this.#ended.set(name, performance.now());
    const open = new Set<string>();
    for (const event of [...this.#held.keys()]) {
      if (event.name !== name) continue;
      this.#drop(event);
      if (!this.#isKnown(event)) open.add(event.id);
    }
    for (const id of open) this.deps.refresh(id);
  }

  #drop(event: EngineEvent): void {
    clearTimeout(this.#held.get(event));
    this.#held.delete(event);
  }

  /** Whether the model has the state that the event tells of. Other events tell of no state. */
  #isKnown({ id, action }: EngineEvent): boolean {
    const { model, isRefreshing } = this.deps;
    if (isRefreshing(id)) return false;
    if (action === "destroy") return !model.has(id);
    if (model.isStale(id)) return false;
    const status = model.snapshot(id)?.state.status;
    switch (action) {
      case "create":
        return status !== undefined;
      case "start":
      case "unpause":
        return status === "running";
      case "die":
        return status === "exited" || status === "dead";
      case "pause":
        return status === "paused";
      default:
        return false;
    }
  }
}
