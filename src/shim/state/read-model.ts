import type { ErrorFields } from "../lib/errors.js";
import { ShimError } from "../lib/errors.js";
import type { Container, ContainerEntry } from "../domain/container.js";
import { toContainer } from "../domain/container.js";
import type { Labels } from "../domain/labels.js";
import { podUidLabel, sandboxIdLabel, typeLabel } from "../domain/labels.js";
import type { Sandbox, SandboxEntry, SandboxRecord } from "../domain/sandbox.js";
import { toSandbox } from "../domain/sandbox.js";
import type { ListedContainer, Snapshot } from "../domain/snapshot.js";
import { findId, idCharacters } from "../domain/filter.js";
import { LabelIndex } from "./label-index.js";
import { PendingInspects } from "./pending-inspects.js";

/** The parts of a list's filter that there are indexes for. */
export interface Wanted {
  /** A full id, a prefix, or empty: no matter which. */
  readonly id: string;
  /** Of containers; as `id`. */
  readonly sandboxId?: string;
  /** Exact values of Docker's labels. */
  readonly labels: Labels;
}

/** What one write changed, of what readers can see. */
export interface ModelChange {
  /** Of a sandbox or container. */
  readonly id: string;
  readonly sandboxId: string;
  /** The sandbox as it is now, or was when it went; undefined when it is not known. */
  readonly sandbox: Sandbox | undefined;
  /** Undefined: not there. Both are when something went that was never read. */
  readonly before: Snapshot | undefined;
  readonly after: Snapshot | undefined;
}

interface Sight {
  readonly sandboxId: string;
  readonly sandbox: Sandbox | undefined;
  readonly snapshot: Snapshot | undefined;
}

/**
 * All sandboxes and containers, in memory. StateSync is the one writer (`expect`, `put`, `delete`); everybody else
 * reads, and what they read never changes under them: an entity is replaced, not altered.
 *
 * What the engine has listed and no inspect has described yet is unread: its id is known and lists show it, but there
 * is no entity. Nobody may take it for gone.
 */
export class ReadModel {
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #containers = new Map<string, Container>();
  readonly #sandboxesOfPod = new LabelIndex<Sandbox>(podUidLabel);
  readonly #containersOfPod = new LabelIndex<Container>(podUidLabel);
  readonly #containersOfSandbox = new LabelIndex<Container>(sandboxIdLabel);
  readonly #unread: PendingInspects;
  readonly #stale = new Set<string>();
  /** Docker names of sandboxes that are being made → ids of those that had such a name before. */
  readonly #hiddenNames = new Map<string, ReadonlySet<string>>();
  readonly #hiddenIds = new Set<string>();
  readonly #listeners = new Set<(change: ModelChange) => void>();

  constructor(private readonly recordOf: (sandboxId: string) => SandboxRecord | undefined) {
    this.#unread = new PendingInspects(recordOf, (sandboxId) => this.#sandboxes.get(sandboxId)?.pod);
  }

  /** The engine's list has it, and a fresh inspect is due. What is known stays as it is, but counts as stale. */
  expect(listed: ListedContainer): void {
    if (this.snapshot(listed.id) === undefined) this.#unread.put(listed);
    else this.#stale.add(listed.id);
  }

  /** The latest inspect failed: what is known of it may be outdated. */
  failed(id: string): void {
    if (this.snapshot(id) !== undefined) this.#stale.add(id);
  }

  /** What a fresh inspect said. Containers that no pod owns are not kept, nor what was known of them before. */
  put(snapshot: Snapshot): void {
    const { id } = snapshot;
    const before = this.#sightOf(id);
    this.#unread.delete(id);
    this.#stale.delete(id);
    if (!this.#keep(snapshot)) this.#remove(id);
    this.#tell(id, before, this.#sightOf(id));
  }

  /** False when it is no part of a pod, or of which one cannot be told. */
  #keep(snapshot: Snapshot): boolean {
    const sandbox = toSandbox(snapshot, this.recordOf(snapshot.id));
    if (sandbox !== undefined) {
      const isNew = !this.#sandboxes.has(sandbox.id);
      this.#sandboxes.set(sandbox.id, sandbox);
      this.#sandboxesOfPod.put(sandbox);
      // Names of containers that were seen before their sandbox were read without its help.
      if (isNew) {
        for (const container of this.containersOf(sandbox.id)) this.#keep(container.snapshot);
        this.#unread.podChanged(sandbox.id);
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

  /** The engine does not have it any more. */
  delete(id: string): void {
    const before = this.#sightOf(id);
    this.#unread.delete(id);
    this.#stale.delete(id);
    this.#remove(id);
    this.#tell(id, before, undefined);
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
   * Calls `listener`, which must not throw, after each write that changes what readers see of a sandbox or container; a
   * hidden sandbox changes when it is shown. Returns what ends that.
   */
  onChange(listener: (change: ModelChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(id: string, before: Sight | undefined, after: Sight | undefined): void {
    const either = after ?? before;
    if (either === undefined) return;
    const { sandboxId, sandbox } = either;
    const change = { id, sandboxId, sandbox, before: before?.snapshot, after: after?.snapshot };
    for (const listener of this.#listeners) listener(change);
  }

  /** What readers see; undefined for what they cannot see, or what belongs to no pod. */
  #sightOf(id: string): Sight | undefined {
    if (this.#listeners.size === 0) return undefined;
    const sandbox = this.#sandboxes.get(id);
    if (sandbox !== undefined) {
      return this.#isHidden(sandbox) ? undefined : { sandboxId: id, sandbox, snapshot: sandbox.snapshot };
    }
    const container = this.#containers.get(id);
    const sandboxId = container?.sandboxId ?? this.#unread.sandboxIdOf(id);
    if (sandboxId === undefined) return undefined;
    return { sandboxId, sandbox: this.#sandboxes.get(sandboxId), snapshot: container?.snapshot };
  }

  /** The record of a sandbox changed: derive it anew from the same snapshot. */
  recordChanged(sandboxId: string): void {
    const known = this.#sandboxes.get(sandboxId);
    if (known !== undefined) this.#keep(known.snapshot);
    else this.#unread.podChanged(sandboxId);
  }

  /**
   * Keeps a sandbox out of lists while RunPodSandbox works on it: its id belongs to nobody before the answer. `id` is
   * told as soon as there is one; disposing shows the sandbox again. One that has had the name before stays visible.
   */
  hide(dockerName: string): { setId(id: string): void } & Disposable {
    const hiddenIds = new Set<string>();
    const namesakes = [...this.#sandboxes.values(), ...this.#unread.sandboxes()].filter(
      ({ snapshot }) => properName(snapshot.name) === dockerName,
    );
    this.#hiddenNames.set(dockerName, new Set(namesakes.map(({ id }) => id)));
    return {
      setId: (id) => {
        hiddenIds.add(id);
        this.#hiddenIds.add(id);
      },
      [Symbol.dispose]: () => {
        const shown = [...this.#sandboxes.values()].filter(
          (sandbox) => properName(sandbox.snapshot.name) === dockerName && this.#isHidden(sandbox),
        );
        this.#hiddenNames.delete(dockerName);
        for (const id of hiddenIds) this.#hiddenIds.delete(id);
        for (const { id } of shown) this.#tell(id, undefined, this.#sightOf(id));
      },
    };
  }

  /** Sandboxes that are not hidden: all that are wanted, and perhaps others. */
  *sandboxes(wanted?: Wanted): IterableIterator<Sandbox> {
    for (const sandbox of this.#sandboxesNear(wanted)) {
      if (this.#hiddenNames.size === 0 || !this.#isHidden(sandbox)) yield sandbox;
    }
  }

  #sandboxesNear(wanted: Wanted | undefined): Iterable<Sandbox> {
    if (wanted === undefined) return this.#sandboxes.values();
    const uid = wanted.labels[podUidLabel];
    if (isWhole(wanted.id)) return whole(this.#sandboxes.get(wanted.id));
    return uid === undefined ? this.#sandboxes.values() : this.#sandboxesOfPod.of(uid);
  }

  /** As `sandboxes`, with unread ones as far as their pod can be told. */
  *sandboxEntries(wanted?: Wanted): IterableIterator<SandboxEntry> {
    yield* this.sandboxes(wanted);
    for (const entry of this.#unread.sandboxes()) if (!this.#isHidden(entry)) yield entry;
  }

  #isHidden({ id, snapshot }: SandboxEntry): boolean {
    const namesakes = this.#hiddenNames.get(properName(snapshot.name));
    return namesakes !== undefined && !namesakes.has(id);
  }

  /** All that are wanted, and perhaps others. */
  containers(wanted?: Wanted): Iterable<Container> {
    if (wanted === undefined) return this.#containers.values();
    const { id, sandboxId = "", labels } = wanted;
    if (isWhole(id)) return whole(this.#containers.get(id));
    if (isWhole(sandboxId)) return this.#containersOfSandbox.of(sandboxId);
    const uid = labels[podUidLabel];
    return uid === undefined ? this.#containers.values() : this.#containersOfPod.of(uid);
  }

  /** As `containers`, with unread ones as far as their names can be told. */
  *containerEntries(wanted?: Wanted): IterableIterator<ContainerEntry> {
    yield* this.containers(wanted);
    yield* this.#unread.containers();
  }

  containersOf(sandboxId: string): readonly Container[] {
    return [...this.#containersOfSandbox.of(sandboxId)];
  }

  /** Ids of all containers of a sandbox, unread ones too. */
  containerIdsOf(sandboxId: string): readonly string[] {
    return [...this.containersOf(sandboxId).map(({ id }) => id), ...this.#unread.containerIdsOf(sandboxId)];
  }

  /** Whether the sandbox and every container of it that the engine has listed were described by an inspect. */
  isWhollyRead(sandboxId: string): boolean {
    return !this.#unread.sandboxIndex.has(sandboxId) && this.#unread.containerIdsOf(sandboxId).length === 0;
  }

  /** Whether the id is that of a sandbox or container, unread or not, or of a sandbox that is just being made. */
  has(id: string): boolean {
    return this.snapshot(id) !== undefined || this.#unread.has(id) || this.#hiddenIds.has(id);
  }

  /** Ids of all sandboxes and containers, hidden and unread ones too. */
  ids(): readonly string[] {
    return [...this.#sandboxes.keys(), ...this.#containers.keys(), ...this.pendingIds()];
  }

  pendingIds(): readonly string[] {
    return [...this.#unread.sandboxIndex.keys(), ...this.#unread.containerIndex.keys()];
  }

  /** How many sandboxes and containers are unread, and how many of the others are stale. */
  get doubtful(): { readonly unread: number; readonly stale: number } {
    return { unread: this.pendingIds().length, stale: this.#stale.size };
  }

  /** Whether what is known of it may be outdated because an inspect is due or has failed. Unread ones are. */
  isStale(id: string): boolean {
    return this.#stale.has(id) || this.#unread.has(id);
  }

  snapshot(id: string): Snapshot | undefined {
    return (this.#sandboxes.get(id) ?? this.#containers.get(id))?.snapshot;
  }

  /**
   * The full id of a sandbox, unread or not, by that or an unambiguous prefix; undefined when unknown. Ambiguous
   * prefixes throw `invalid`.
   */
  sandboxId(idOrPrefix: string): string | undefined {
    return findId([this.#sandboxes, this.#unread.sandboxIndex], idOrPrefix, "pod sandbox");
  }

  containerId(idOrPrefix: string): string | undefined {
    return findId([this.#containers, this.#unread.containerIndex], idOrPrefix, "container");
  }

  /** By full id or unambiguous prefix; undefined when unknown or unread; ambiguous prefixes throw `invalid`. */
  sandbox(idOrPrefix: string): Sandbox | undefined {
    return this.#sandboxes.get(idOrPrefix) ?? this.#sandboxes.get(this.sandboxId(idOrPrefix) ?? "");
  }

  container(idOrPrefix: string): Container | undefined {
    return this.#containers.get(idOrPrefix) ?? this.#containers.get(this.containerId(idOrPrefix) ?? "");
  }

  /** As `sandbox`, but unknown ids throw `notFound`, and unread ones `unavailable`. */
  requireSandbox(idOrPrefix: string): Sandbox {
    const sandbox = this.sandbox(idOrPrefix);
    if (sandbox === undefined) {
      const sandboxId = this.sandboxId(idOrPrefix);
      if (sandboxId !== undefined) throw unreadError(`pod sandbox "${sandboxId}"`, { sandboxId });
      throw new ShimError("notFound", `no such pod sandbox: "${idOrPrefix}"`, { sandboxId: idOrPrefix });
    }
    return sandbox;
  }

  requireContainer(idOrPrefix: string): Container {
    const container = this.container(idOrPrefix);
    if (container === undefined) {
      const containerId = this.containerId(idOrPrefix);
      if (containerId !== undefined) throw unreadError(`container "${containerId}"`, { containerId });
      // Kubelets and tests of both ancestors look for Docker's words.
      throw new ShimError("notFound", `No such container: ${idOrPrefix}`, { containerId: idOrPrefix });
    }
    return container;
  }

  #podOf(snapshot: Snapshot): Sandbox["pod"] | undefined {
    const sandboxId = snapshot.labels[sandboxIdLabel];
    return sandboxId === undefined ? undefined : this.#sandboxes.get(sandboxId)?.pod;
  }
}

function isWhole(id: string): boolean {
  return id.length >= idCharacters;
}

function whole<Entity>(entity: Entity | undefined): readonly Entity[] {
  return entity === undefined ? [] : [entity];
}

/** A Docker name without the suffix that it got because its proper name was taken. */
function properName(name: string): string {
  return name.replace(/_[0-9a-f]{8}$/, "");
}

function unreadError(what: string, fields: ErrorFields): ShimError {
  return new ShimError("unavailable", `${what}: the engine has not described it yet`, fields);
}
