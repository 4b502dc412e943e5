import { toContainerEntry, type ContainerEntry } from "../../domain/container.js";
import { containerType, sandboxIdLabel, sandboxType, typeLabel } from "../../domain/labels.js";
import type { PodIdentity } from "../../domain/names.js";
import { toSandboxEntry, type SandboxEntry, type SandboxRecord } from "../../domain/sandbox.js";
import { listedName, type ListedContainer } from "../../domain/snapshot.js";

interface Pending<Entry> {
  readonly listed: ListedContainer;
  /** Undefined when the list does not say enough for an entry; the same object until something changes. */
  readonly entry: Entry | undefined;
}

/**
 * The part of the read model that is known from the engine's list alone: sandboxes and containers whose first
 * inspect has not ended, hangs or fails.
 */
export class PendingInspects {
  readonly #sandboxes = new Map<string, Pending<SandboxEntry>>();
  readonly #containers = new Map<string, Pending<ContainerEntry>>();

  constructor(
    private readonly recordOf: (sandboxId: string) => SandboxRecord | undefined,
    private readonly podOf: (sandboxId: string) => PodIdentity | undefined,
  ) {}

  /** Ignores containers that are not part of a pod. */
  put(listed: ListedContainer): void {
    const { id, labels, status } = listed;
    const type = labels[typeLabel];
    const named = { ...listed, name: listedName(listed) };
    if (type === sandboxType) {
      const state = { running: ["running", "paused", "restarting"].includes(status) };
      this.#sandboxes.set(id, { listed, entry: toSandboxEntry({ ...named, state }, this.recordOf(id)) });
    } else if (type === containerType) {
      // Lists have no exit codes: a failed start is shown as a created container.
      const state = { status, exitCode: 0 };
      const pod = this.podOf(labels[sandboxIdLabel] ?? "");
      this.#containers.set(id, { listed, entry: toContainerEntry({ ...named, state }, pod) });
    }
  }

  delete(id: string): void {
    this.#sandboxes.delete(id);
    this.#containers.delete(id);
  }

  /** The pod's record changed, or its identity became known: its entries are derived again. */
  podChanged(sandboxId: string): void {
    const sandbox = this.#sandboxes.get(sandboxId);
    if (sandbox !== undefined) this.put(sandbox.listed);
    for (const { listed } of this.#containers.values()) {
      if (listed.labels[sandboxIdLabel] === sandboxId) this.put(listed);
    }
  }

  entry(id: string): SandboxEntry | ContainerEntry | undefined {
    return (this.#sandboxes.get(id) ?? this.#containers.get(id))?.entry;
  }

  has(id: string): boolean {
    return this.#sandboxes.has(id) || this.#containers.has(id);
  }

  *sandboxes(): IterableIterator<SandboxEntry> {
    for (const { entry } of this.#sandboxes.values()) if (entry !== undefined) yield entry;
  }

  *containers(): IterableIterator<ContainerEntry> {
    for (const { entry } of this.#containers.values()) if (entry !== undefined) yield entry;
  }

  containerIdsOf(sandboxId: string): readonly string[] {
    return [...this.#containers.values()]
      .filter(({ listed }) => listed.labels[sandboxIdLabel] === sandboxId)
      .map(({ listed }) => listed.id);
  }

  sandboxIdOf(containerId: string): string | undefined {
    return this.#containers.get(containerId)?.listed.labels[sandboxIdLabel];
  }

  /** By id. */
  get sandboxIndex(): ReadonlyMap<string, unknown> {
    return this.#sandboxes;
  }

  /** By id. */
  get containerIndex(): ReadonlyMap<string, unknown> {
    return this.#containers;
  }
}
