import { withDeadline } from "../../lib/abort.js";
import { LruMap } from "../../lib/lru-map.js";
import type { Logger } from "../../lib/log.js";
import { inheritsPodType, mayInheritPodType } from "../../domain/labels.js";
import { descriptionLimitBytes, type Snapshot } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";

export interface InspectorDeps {
  readonly engine: Pick<Engine, "inspectContainer" | "inspectImage">;
  readonly log: Logger;
  /** Limit of one inspect. */
  readonly timeoutMs: number;
}

/** Ids of removed containers that are remembered: events about them still arrive. */
const removedCapacity = 1_000;

/** The state of one container as the engine has it now. */
export class Inspector {
  /** The engine has answered that it removed them. It gives no id twice. */
  readonly #removed = new LruMap<string, true>(removedCapacity);
  /** Containers whose descriptions were too large, and were reported. */
  readonly #trimmed = new Set<string>();

  constructor(private readonly deps: InspectorDeps) {}

  /** The engine has answered that it removed the container: it is not asked again. */
  noteRemoved(id: string): void {
    this.#removed.set(id, true);
  }

  isRemoved(id: string): boolean {
    return this.#removed.get(id) === true;
  }

  /** Undefined: no such container. */
  async inspect(id: string, signal: AbortSignal): Promise<Snapshot | undefined> {
    const snapshot = this.isRemoved(id)
      ? undefined
      : await withDeadline(signal, this.deps.timeoutMs, `inspect container ${id}`, (limited) =>
          this.#ask(id, limited),
        );
    this.#noteTrimmed(id, snapshot);
    return snapshot;
  }

  /** Without labels when the container is part of a pod only by the labels of its image. */
  async #ask(id: string, signal: AbortSignal): Promise<Snapshot | undefined> {
    const { engine } = this.deps;
    const snapshot = await engine.inspectContainer(id, signal);
    if (snapshot === undefined || !mayInheritPodType(snapshot)) return snapshot;
    const image = await engine.inspectImage(snapshot.imageId, signal);
    return inheritsPodType(snapshot, image) ? { ...snapshot, labels: {} } : snapshot;
  }

  /** Logs once for each container. */
  #noteTrimmed(id: string, snapshot: Snapshot | undefined): void {
    if (snapshot?.isTrimmed !== true) {
      this.#trimmed.delete(id);
    } else if (!this.#trimmed.has(id)) {
      this.#trimmed.add(id);
      this.deps.log.warn(
        { containerId: id, limitBytes: descriptionLimitBytes },
        "container description too large, labels and annotations are left out",
      );
    }
  }
}
