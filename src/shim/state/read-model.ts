import { ShimError } from "../base/errors.js";
import type { Container } from "../domain/container.js";
import { toContainer } from "../domain/container.js";
import { sandboxIdLabel, typeLabel } from "../domain/labels.js";
import type { Sandbox, SandboxRecord } from "../domain/sandbox.js";
import { toSandbox } from "../domain/sandbox.js";
import type { Snapshot } from "../domain/snapshot.js";

/**
 * All sandboxes and containers, in memory. StateSync is the one writer (`put`, `delete`); everybody else reads, and
 * what they read never changes under them: an entity is replaced, not altered.
 */
export class ReadModel {
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #containers = new Map<string, Container>();
  readonly #containersOfSandbox = new Map<string, Map<string, Container>>();
  /** Docker names of sandboxes that are being made → ids of those that had such a name before. */
  readonly #hiddenNames = new Map<string, ReadonlySet<string>>();
  readonly #hiddenIds = new Set<string>();

  constructor(private readonly recordOf: (sandboxId: string) => SandboxRecord | undefined) {}

  /** What a fresh inspect said. Containers that no pod owns are not kept. */
  put(snapshot: Snapshot): void {
    const sandbox = toSandbox(snapshot, this.recordOf(snapshot.id));
    if (sandbox !== undefined) {
      const isNew = !this.#sandboxes.has(sandbox.id);
      this.#sandboxes.set(sandbox.id, sandbox);
      // Names of containers that were seen before their sandbox were read without its help.
      if (isNew) for (const container of this.containersOf(sandbox.id)) this.put(container.snapshot);
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
    if (known !== undefined) this.put(known.snapshot);
  }

  /**
   * Keeps a sandbox out of lists while RunPodSandbox works on it: its id belongs to nobody before the answer. `id` is
   * told as soon as there is one; disposing shows the sandbox again. One that has had the name before stays visible.
   */
  hide(dockerName: string): { setId(id: string): void } & Disposable {
    const hiddenIds = new Set<string>();
    const namesakes = [...this.#sandboxes.values()].filter(
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

  #isHidden({ id, snapshot }: Sandbox): boolean {
    const namesakes = this.#hiddenNames.get(properName(snapshot.name));
    return namesakes !== undefined && !namesakes.has(id);
  }

  containers(): IterableIterator<Container> {
    return this.#containers.values();
  }

  containersOf(sandboxId: string): readonly Container[] {
    return [...(this.#containersOfSandbox.get(sandboxId)?.values() ?? [])];
  }

  /** Whether the id is that of a sandbox or container, or of a sandbox that is just being made. */
  has(id: string): boolean {
    return this.#sandboxes.has(id) || this.#containers.has(id) || this.#hiddenIds.has(id);
  }

  /** Ids of all sandboxes and containers, hidden ones too. */
  ids(): readonly string[] {
    return [...this.#sandboxes.keys(), ...this.#containers.keys()];
  }

  snapshot(id: string): Snapshot | undefined {
    return (this.#sandboxes.get(id) ?? this.#containers.get(id))?.snapshot;
  }

  /** By full id or unambiguous prefix; undefined when unknown; ambiguous prefixes throw `invalid`. */
  sandbox(idOrPrefix: string): Sandbox | undefined {
    return find(this.#sandboxes, idOrPrefix, "pod sandbox");
  }

  container(idOrPrefix: string): Container | undefined {
    return find(this.#containers, idOrPrefix, "container");
  }

  /** As `sandbox`, but unknown ids throw `notFound`. */
  requireSandbox(idOrPrefix: string): Sandbox {
    const sandbox = this.sandbox(idOrPrefix);
    if (sandbox === undefined) {
      throw new ShimError("notFound", `no such pod sandbox: "${idOrPrefix}"`, { sandboxId: idOrPrefix });
    }
    return sandbox;
  }

  requireContainer(idOrPrefix: string): Container {
    const container = this.container(idOrPrefix);
    if (container === undefined) {
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

function find<T>(entities: ReadonlyMap<string, T>, idOrPrefix: string, what: string): T | undefined {
  const exact = entities.get(idOrPrefix);
  if (exact !== undefined || idOrPrefix.length >= 64 || idOrPrefix === "") return exact;
  let match: T | undefined;
  for (const [id, entity] of entities) {
    if (!id.startsWith(idOrPrefix)) continue;
    if (match !== undefined) {
      throw new ShimError("invalid", `${what} id "${idOrPrefix}" is ambiguous: more than one begins with it`);
    }
    match = entity;
  }
  return match;
}
