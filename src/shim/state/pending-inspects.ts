import { type ContainerEntry, toContainerEntry } from "../domain/container.js";
import { containerType, sandboxIdLabel, sandboxType, typeLabel } from "../domain/labels.js";
import type { PodIdentity } from "../domain/names.js";
import { type SandboxEntry, type SandboxRecord, toSandboxEntry } from "../domain/sandbox.js";
import { listedName, type ListedContainer } from "../domain/snapshot.js";

interface Unread<Entry> {
  readonly listed: ListedContainer;
  /** Undefined when the list does not say enough for one; the same object until something changes. */
  readonly entry: Entry | undefined;
}

/** The part of the read model that is known from the engine's list alone. */
export class PendingInspects {
  readonly #sandboxes = new Map<string, Unread<SandboxEntry>>();
  readonly #containers = new Map<string, Unread<ContainerEntry>>();

  constructor(
    private readonly recordOf: (sandboxId: string) => SandboxRecord | undefined,
    private readonly podOf: (sandboxId: string) => PodIdentity | undefined,
  ) {}

  /** Containers that no pod owns are not kept. */
  put(listed: ListedContainer): void {
    const { id, labels } = listed;
    const type = labels[typeLabel];
    if (type === sandboxType) {
      this.#sandboxes.set(id, { listed, entry: unreadSandbox(listed, this.recordOf(id)) });
    } else if (type === containerType) {
      const pod = this.podOf(labels[sandboxIdLabel] ?? "");
      this.#containers.set(id, { listed, entry: unreadContainer(listed, pod) });
    }
  }

  delete(id: string): void {
    this.#sandboxes.delete(id);
    this.#containers.delete(id);
  }

  /** Its record changed, or its identity became known: what is derived from that is derived anew. */
  podChanged(sandboxId: string): void {
    const sandbox = this.#sandboxes.get(sandboxId);
    if (sandbox !== undefined) this.put(sandbox.listed);
    for (const { listed } of this.#containers.values()) {
      if (listed.labels[sandboxIdLabel] === sandboxId) this.put(listed);
    }
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

  /** Keys are the ids. */
  get sandboxIndex(): ReadonlyMap<string, unknown> {
    return this.#sandboxes;
  }

  get containerIndex(): ReadonlyMap<string, unknown> {
    return this.#containers;
  }
}

/**
 * Sandboxes and containers that the engine has listed but not described yet, because their inspect hangs or fails: what
 * lists can say of them.
 */

/** Undefined when it is no sandbox, or its pod cannot be told from record, name or labels. */
export function unreadSandbox(
  listed: ListedContainer,
  record: SandboxRecord | undefined,
): SandboxEntry | undefined {
  const running = ["running", "paused", "restarting"].includes(listed.status);
  return toSandboxEntry({ ...listed, name: listedName(listed), state: { running } }, record);
}

/** Undefined when it is no container of a pod. Lists tell no exit codes: a failed start looks like none. */
export function unreadContainer(
  listed: ListedContainer,
  pod: PodIdentity | undefined,
): ContainerEntry | undefined {
  const state = { status: listed.status, exitCode: 0 };
  return toContainerEntry({ ...listed, name: listedName(listed), state }, pod);
}
