import type { ErrorFields } from "../base/errors.js";
import { ShimError } from "../base/errors.js";
import type { Container, ContainerEntry } from "../domain/container.js";
import { toContainer } from "../domain/container.js";
import { sandboxIdLabel, typeLabel } from "../domain/labels.js";
import type { Sandbox, SandboxEntry, SandboxRecord } from "../domain/sandbox.js";
import { toSandbox } from "../domain/sandbox.js";
import type { ListedContainer, Snapshot } from "../domain/snapshot.js";
import { findId } from "./find-id.js";
import { UnreadEntries } from "./unread-entries.js";

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
  readonly #containersOfSandbox = new Map<string, Map<string, Container>>();
  readonly #unread: UnreadEntries;
  readonly #stale = new Set<string>();
  /** Docker names of sandboxes that are being made → ids of those that had such a name before. */
  readonly #hiddenNames = new Map<string, ReadonlySet<string>>();
  readonly #hiddenIds = new Set<string>();

  constructor(private readonly recordOf: (sandboxId: string) => SandboxRecord | undefined) {
    this.#unread = new UnreadEntries(recordOf, (sandboxId) => this.#sandboxes.get(sandboxId)?.pod);
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

  /** What a fresh inspect said. Containers that no pod owns are not kept. */
  put(snapshot: Snapshot): void {
    this.#unread.delete(snapshot.id);
    this.#stale.delete(snapshot.id);
    this.#keep(snapshot);
  }

  #keep(snapshot: Snapshot): void {
    const sandbox = toSandbox(snapshot, this.recordOf(snapshot.id));
    if (sandbox !== undefined) {
      const isNew = !this.#sandboxes.has(sandbox.id);
      this.#sandboxes.set(sandbox.id, sandbox);
      // Names of containers that were seen before their sandbox were read without its help.
      if (isNew) {
        for (const container of this.containersOf(sandbox.id)) this.#keep(container.snapshot);
        this.#unread.podChanged(sandbox.id);
      }
      return;
    }
    if (snapshot.labels[typeLabel] === undefined) return;
    const container = toContainer(snapshot, this.#podOf(snapshot));
    if (container === undefined) return;
    this.#containers.set(container.id, container);
    const siblings = this.#containersOfSandbox.get(container.sandboxId) ?? new Map<string, Container>();
    siblings.set(container.id, container);
    this.#containersOfSandbox.set(container.sandboxId, siblings);
  }

  /** The engine does not have it any more. */
  delete(id: string): void {
    this.#unread.delete(id);
    this.#stale.delete(id);
    this.#sandboxes.delete(id);
    const container = this.#containers.get(id);
    if (container === undefined) return;
    this.#containers.delete(id);
    const siblings = this.#containersOfSandbox.get(container.sandboxId);
    siblings?.delete(id);
    if (siblings?.size === 0) this.#containersOfSandbox.delete(container.sandboxId);
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
        this.#hiddenNames.delete(dockerName);
        for (const id of hiddenIds) this.#hiddenIds.delete(id);
      },
    };
  }

  /** Sandboxes that are not hidden. */
  *sandboxes(): IterableIterator<Sandbox> {
    for (const sandbox of this.#sandboxes.values()) {
      if (this.#hiddenNames.size === 0 || !this.#isHidden(sandbox)) yield sandbox;
    }
  }

  /** As `sandboxes`, with unread ones as far as their pod can be told. */
  *sandboxEntries(): IterableIterator<SandboxEntry> {
    yield* this.sandboxes();
    for (const entry of this.#unread.sandboxes()) if (!this.#isHidden(entry)) yield entry;
  }

  #isHidden({ id, snapshot }: SandboxEntry): boolean {
    const namesakes = this.#hiddenNames.get(properName(snapshot.name));
    return namesakes !== undefined && !namesakes.has(id);
  }

  containers(): IterableIterator<Container> {
    return this.#containers.values();
  }

  /** With unread ones, as far as their names can be told. */
  *containerEntries(): IterableIterator<ContainerEntry> {
    yield* this.#containers.values();
    yield* this.#unread.containers();
  }

  containersOf(sandboxId: string): readonly Container[] {
    return [...(this.#containersOfSandbox.get(sandboxId)?.values() ?? [])];
  }

  /** Ids of all containers of a sandbox, unread ones too. */
  containerIdsOf(sandboxId: string): readonly string[] {
    return [
      ...(this.#containersOfSandbox.get(sandboxId)?.keys() ?? []),
      ...this.#unread.containerIdsOf(sandboxId),
    ];
  }

  /** Whether the id is that of a sandbox or container, unread or not, or of a sandbox that is just being made. */
  has(id: string): boolean {
    return this.snapshot(id) !== undefined || this.#unread.has(id) || this.#hiddenIds.has(id);
  }

  /** Ids of all sandboxes and containers, hidden and unread ones too. */
  ids(): readonly string[] {
    return [...this.#sandboxes.keys(), ...this.#containers.keys(), ...this.unreadIds()];
  }

  unreadIds(): readonly string[] {
    return [...this.#unread.sandboxIndex.keys(), ...this.#unread.containerIndex.keys()];
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

/** A Docker name without the suffix that it got because its proper name was taken. */
function properName(name: string): string {
  return name.replace(/_[0-9a-f]{8}$/, "");
}

function unreadError(what: string, fields: ErrorFields): ShimError {
  return new ShimError("unavailable", `${what}: the engine has not described it yet`, fields);
}
