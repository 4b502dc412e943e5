import { type ErrorFields, ShimError } from "../../lib/errors.js";
import { type Container, type ContainerEntry, toContainer } from "../../domain/container.js";
import { type Labels, podUidLabel, sandboxIdLabel, typeLabel } from "../../domain/labels.js";
import type { Sandbox, SandboxEntry, SandboxRecord, SandboxSource } from "../../domain/sandbox.js";
import { toSandbox, toSandboxEntry } from "../../domain/sandbox.js";
import type { ListedContainer, Snapshot } from "../../domain/snapshot.js";
import { findId, idCharacters } from "../../domain/id-and-label-filters.js";
import { Arrivals } from "./arrivals.js";
import { HiddenSandboxes, properName } from "./hidden-sandboxes.js";
import { LabelIndex } from "./label-index.js";
import { PendingInspects } from "./pending-inspects.js";

/** The parts of a list's filter that have an index. */
export interface Wanted {
  /** A full id, a prefix, or empty for any. */
  readonly id: string;
  /** As `id`; only for containers. */
  readonly sandboxId?: string;
  /** Exact values of Docker labels. */
  readonly labels: Labels;
}

/** One write, as readers see it. */
export interface ModelChange {
  /** Id of a sandbox or container. */
  readonly id: string;
  readonly sandboxId: string;
  /** The sandbox as it is now, or as it was when it was removed; undefined when it is unknown. */
  readonly sandbox: Sandbox | undefined;
  /** Undefined: absent. Both are undefined when an entry is removed that was never inspected. */
  readonly before: Snapshot | undefined;
  readonly after: Snapshot | undefined;
}

/** What readers see of one id. */
interface VisibleState {
  readonly sandboxId: string;
  readonly sandbox: Sandbox | undefined;
  readonly snapshot: Snapshot | undefined;
}

/**
 * All sandboxes and containers, in memory. StateSync is the only writer (`expect`, `put`, `failed`,
 * `delete`). Entities are immutable: a write replaces them.
 *
 * An id that the engine has listed and no inspect has described yet is pending: lists show it, but there is
 * no entity. Readers must not take it for removed.
 */
export class ReadModel {
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #containers = new Map<string, Container>();
  readonly #sandboxesOfPod = new LabelIndex<Sandbox>(podUidLabel);
  readonly #containersOfPod = new LabelIndex<Container>(podUidLabel);
  readonly #containersOfSandbox = new LabelIndex<Container>(sandboxIdLabel);
  readonly #pending: PendingInspects;
  readonly #stale = new Set<string>();
  readonly #hidden = new HiddenSandboxes();
  /** Calls that wait for an id. */
  readonly arrivals = new Arrivals();
  readonly #listeners = new Set<(change: ModelChange) => void>();

  constructor(private readonly recordOf: (sandboxId: string) => SandboxRecord | undefined) {
    this.#pending = new PendingInspects(recordOf, (sandboxId) => this.#sandboxes.get(sandboxId)?.pod);
  }

  /** The engine's list has the id, and an inspect is due. A known entity stays, but is stale. */
  expect(listed: ListedContainer): void {
    if (this.snapshot(listed.id) === undefined) this.#pending.put(listed);
    else this.#stale.add(listed.id);
    this.arrivals.noticed(listed.id);
  }

  /** The latest inspect failed: a known entity is stale. */
  failed(id: string): void {
    if (this.snapshot(id) !== undefined) this.#stale.add(id);
  }

  /** Stores what an inspect returned. A container that is not part of a pod is removed. */
  put(snapshot: Snapshot): void {
    const { id } = snapshot;
    const before = this.#visibleState(id);
    this.#pending.delete(id);
    this.#stale.delete(id);
    if (!this.#keep(snapshot)) this.#remove(id);
    this.#notify(id, before, this.#visibleState(id));
  }

  /** False when the container is not part of a pod, or its pod is unknown. */
  #keep(snapshot: Snapshot): boolean {
    const sandbox = toSandbox(snapshot, this.recordOf(snapshot.id));
    if (sandbox !== undefined) {
      const isNew = !this.#sandboxes.has(sandbox.id);
      this.#sandboxes.set(sandbox.id, sandbox);
      this.#sandboxesOfPod.put(sandbox);
      // Containers that came before their sandbox were parsed without the pod's identity.
      if (isNew) {
        for (const container of this.containersOf(sandbox.id)) this.#keep(container.snapshot);
        this.#pending.podChanged(sandbox.id);
      }
      return true;
    }
    if (snapshot.labels[typeLabel] === undefined) return false;
    const container = toContainer(snapshot, this.#podOf(snapshot));
    if (container === undefined) return false;
    this.#containers.set(container.id, container);
    this.#containersOfSandbox.put(container);
    this.#containersOfPod.put(container);
    return true;
  }

  /** The engine has no such container any more. */
  delete(id: string): void {
    const before = this.#visibleState(id);
    this.#pending.delete(id);
    this.#stale.delete(id);
    this.#remove(id);
    this.#notify(id, before, undefined);
  }

  #remove(id: string): void {
    const sandbox = this.#sandboxes.get(id);
    if (sandbox !== undefined) {
      this.#sandboxes.delete(id);
      this.#sandboxesOfPod.delete(sandbox);
    }
    const container = this.#containers.get(id);
    if (container !== undefined) {
      this.#containers.delete(id);
      this.#containersOfSandbox.delete(container);
      this.#containersOfPod.delete(container);
    }
  }

  /**
   * Calls `listener`, which must not throw, after each write to a visible sandbox or container, and when a
   * hidden sandbox becomes visible. The returned function unsubscribes.
   */
  onChange(listener: (change: ModelChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #notify(id: string, before: VisibleState | undefined, after: VisibleState | undefined): void {
    this.arrivals.noticed(id);
    const either = after ?? before;
    if (either === undefined) return;
    const { sandboxId, sandbox } = either;
    const change = { id, sandboxId, sandbox, before: before?.snapshot, after: after?.snapshot };
    for (const listener of this.#listeners) listener(change);
  }

  /** Undefined for ids that are hidden, unknown, or not part of a pod. Without listeners it is not needed. */
  #visibleState(id: string): VisibleState | undefined {
    if (this.#listeners.size === 0) return undefined;
    const sandbox = this.#sandboxes.get(id);
    if (sandbox !== undefined) {
      return this.#hidden.isHidden(sandbox)
        ? undefined
        : { sandboxId: id, sandbox, snapshot: sandbox.snapshot };
    }
    const container = this.#containers.get(id);
    const sandboxId = container?.sandboxId ?? this.#pending.sandboxIdOf(id);
    if (sandboxId === undefined) return undefined;
    return { sandboxId, sandbox: this.#sandboxes.get(sandboxId), snapshot: container?.snapshot };
  }

  /** The record of a sandbox changed: the sandbox is derived again from the same snapshot. */
  recordChanged(sandboxId: string): void {
    const known = this.#sandboxes.get(sandboxId);
    if (known !== undefined) this.#keep(known.snapshot);
    else this.#pending.podChanged(sandboxId);
  }

  /**
   * Hides the sandbox of this name from lists while RunPodSandbox creates it, until the result is disposed.
   * Earlier sandboxes of the name stay visible. The caller says what it has created as soon as there is an id.
   */
  hide(dockerName: string): { created(source: SandboxSource): void } & Disposable {
    const ids = new Set<string>();
    const namesakes = [...this.#sandboxes.values(), ...this.#pending.sandboxes()].filter(
      ({ snapshot }) => properName(snapshot.name) === dockerName,
    );
    this.#hidden.begin(dockerName, new Set(namesakes.map(({ id }) => id)));
    return {
      created: (source) => {
        ids.add(source.id);
        this.#hidden.created(source.id, toSandboxEntry(source, undefined));
        this.arrivals.noticed(source.id);
      },
      [Symbol.dispose]: () => {
        const shown = [...this.#sandboxes.values()].filter(
          (sandbox) => properName(sandbox.snapshot.name) === dockerName && this.#hidden.isHidden(sandbox),
        );
        this.#hidden.end(dockerName, ids);
        for (const { id } of shown) this.#notify(id, undefined, this.#visibleState(id));
      },
    };
  }

  /** Visible sandboxes: all that are wanted, and perhaps others. */
  *sandboxes(wanted?: Wanted): IterableIterator<Sandbox> {
    for (const sandbox of this.#sandboxCandidates(wanted)) {
      if (this.#hidden.isEmpty || !this.#hidden.isHidden(sandbox)) yield sandbox;
    }
  }

  #sandboxCandidates(wanted: Wanted | undefined): Iterable<Sandbox> {
    if (wanted === undefined) return this.#sandboxes.values();
    const uid = wanted.labels[podUidLabel];
    if (isFullId(wanted.id)) return oneOrNone(this.#sandboxes.get(wanted.id));
    return uid === undefined ? this.#sandboxes.values() : this.#sandboxesOfPod.of(uid);
  }

  /** As `sandboxes`, with pending ones whose pod is known. */
  *sandboxEntries(wanted?: Wanted): IterableIterator<SandboxEntry> {
    yield* this.sandboxes(wanted);
    for (const entry of this.#pending.sandboxes()) if (!this.#hidden.isHidden(entry)) yield entry;
  }

  /** All that are wanted, and perhaps others. */
  containers(wanted?: Wanted): Iterable<Container> {
    if (wanted === undefined) return this.#containers.values();
    const { id, sandboxId = "", labels } = wanted;
    if (isFullId(id)) return oneOrNone(this.#containers.get(id));
    if (isFullId(sandboxId)) return this.#containersOfSandbox.of(sandboxId);
    const uid = labels[podUidLabel];
    return uid === undefined ? this.#containers.values() : this.#containersOfPod.of(uid);
  }

  /** As `containers`, with pending ones whose names can be parsed. */
  *containerEntries(wanted?: Wanted): IterableIterator<ContainerEntry> {
    yield* this.containers(wanted);
    yield* this.#pending.containers();
  }

  containersOf(sandboxId: string): readonly Container[] {
    return [...this.#containersOfSandbox.of(sandboxId)];
  }

  /** Ids of all containers of a sandbox, also of pending ones. */
  containerIdsOf(sandboxId: string): readonly string[] {
    return [...this.containersOf(sandboxId).map(({ id }) => id), ...this.#pending.containerIdsOf(sandboxId)];
  }

  /** Whether neither the sandbox nor any of its containers is pending. */
  isFullyInspected(sandboxId: string): boolean {
    return !this.#pending.sandboxIndex.has(sandboxId) && this.#pending.containerIdsOf(sandboxId).length === 0;
  }

  /** Whether a sandbox or container has the id: known, pending, or a sandbox that RunPodSandbox is creating. */
  has(id: string): boolean {
    return this.snapshot(id) !== undefined || this.#pending.has(id) || this.#hidden.has(id);
  }

  /** Ids of all sandboxes and containers, also of hidden and pending ones. */
  ids(): readonly string[] {
    return [...this.#sandboxes.keys(), ...this.#containers.keys(), ...this.pendingIds()];
  }

  pendingIds(): readonly string[] {
    return [...this.#pending.sandboxIndex.keys(), ...this.#pending.containerIndex.keys()];
  }

  /** How many sandboxes and containers are pending, and how many of the others are stale. */
  get unsynced(): { readonly pending: number; readonly stale: number } {
    return { pending: this.pendingIds().length, stale: this.#stale.size };
  }

  /** Whether the entity may be outdated because an inspect is due or has failed. Pending ids are stale. */
  isStale(id: string): boolean {
    return this.#stale.has(id) || this.#pending.has(id);
  }

  /** By full id, also of a pending one, and of a sandbox that RunPodSandbox is creating. */
  entry(id: string): SandboxEntry | ContainerEntry | undefined {
    const known = this.#sandboxes.get(id) ?? this.#containers.get(id);
    return known ?? this.#pending.entry(id) ?? this.#hidden.entry(id);
  }

  snapshot(id: string): Snapshot | undefined {
    return (this.#sandboxes.get(id) ?? this.#containers.get(id))?.snapshot;
  }

  /**
   * The full id of a known or pending sandbox by its id or an unambiguous prefix; ambiguous prefixes are
   * `invalid`.
   */
  sandboxId(idOrPrefix: string): string | undefined {
    return findId([this.#sandboxes, this.#pending.sandboxIndex], idOrPrefix, "pod sandbox");
  }

  containerId(idOrPrefix: string): string | undefined {
    return findId([this.#containers, this.#pending.containerIndex], idOrPrefix, "container");
  }

  /** By full id or unambiguous prefix; undefined when unknown or pending; ambiguous prefixes are `invalid`. */
  sandbox(idOrPrefix: string): Sandbox | undefined {
    return this.#sandboxes.get(idOrPrefix) ?? this.#sandboxes.get(this.sandboxId(idOrPrefix) ?? "");
  }

  container(idOrPrefix: string): Container | undefined {
    return this.#containers.get(idOrPrefix) ?? this.#containers.get(this.containerId(idOrPrefix) ?? "");
  }

  /** As `sandbox`, but unknown ids throw `notFound`, and pending ones `unavailable`. */
  requireSandbox(idOrPrefix: string): Sandbox {
    const sandbox = this.sandbox(idOrPrefix);
    if (sandbox === undefined) {
      const sandboxId = this.sandboxId(idOrPrefix);
      if (sandboxId !== undefined) throw pendingError(`pod sandbox "${sandboxId}"`, { sandboxId });
      throw new ShimError("notFound", `no such pod sandbox: "${idOrPrefix}"`, { sandboxId: idOrPrefix });
    }
    return sandbox;
  }

  requireContainer(idOrPrefix: string): Container {
    const container = this.container(idOrPrefix);
    if (container === undefined) {
      const containerId = this.containerId(idOrPrefix);
      if (containerId !== undefined) throw pendingError(`container "${containerId}"`, { containerId });
      // Kubelets, and the tests of dockershim and cri-dockerd, match Docker's message.
      throw new ShimError("notFound", `No such container: ${idOrPrefix}`, { containerId: idOrPrefix });
    }
    return container;
  }

  #podOf(snapshot: Snapshot): Sandbox["pod"] | undefined {
    const sandboxId = snapshot.labels[sandboxIdLabel];
    return sandboxId === undefined ? undefined : this.#sandboxes.get(sandboxId)?.pod;
  }
}

function isFullId(id: string): boolean {
  return id.length >= idCharacters;
}

function oneOrNone<Entity>(entity: Entity | undefined): readonly Entity[] {
  return entity === undefined ? [] : [entity];
}

function pendingError(what: string, fields: ErrorFields): ShimError {
  return new ShimError("unavailable", `${what}: waiting for its first inspect`, fields);
}
