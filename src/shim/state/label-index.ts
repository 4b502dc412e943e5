import type { Labels } from "../../domain/labels.js";

interface Labelled {
  readonly id: string;
  readonly snapshot: { readonly labels: Labels };
}

/** Entities by the value of one Docker label; entities without the label are not in it. */
export class LabelIndex<Entity extends Labelled> {
  readonly #byValue = new Map<string, Map<string, Entity>>();

  constructor(private readonly label: string) {}

  /** Replaces the entity with the same id. */
  put(entity: Entity): void {
    const value = entity.snapshot.labels[this.label];
    if (value === undefined) return;
    const entities = this.#byValue.get(value) ?? new Map<string, Entity>();
    entities.set(entity.id, entity);
    this.#byValue.set(value, entities);
  }

  delete({ id, snapshot }: Entity): void {
    const value = snapshot.labels[this.label];
    if (value === undefined) return;
    const entities = this.#byValue.get(value);
    entities?.delete(id);
    if (entities?.size === 0) this.#byValue.delete(value);
  }

  /** Entities whose label has that value, in the order in which they were put. */
  of(value: string): Iterable<Entity> {
    return this.#byValue.get(value)?.values() ?? [];
  }
}
