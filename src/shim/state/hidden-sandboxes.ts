import type { SandboxEntry } from "../../domain/sandbox.js";

/** Sandboxes that RunPodSandbox is creating: lists do not show them, because their client does not know the id yet. */
export class HiddenSandboxes {
  /** Docker names → ids of earlier sandboxes with that name. */
  readonly #names = new Map<string, ReadonlySet<string>>();
  /** What the create request says of each, by id. */
  readonly #created = new Map<string, SandboxEntry | undefined>();

  /** From now on sandboxes of this name are hidden, but for the earlier ones. */
  begin(dockerName: string, earlier: ReadonlySet<string>): void {
    this.#names.set(dockerName, earlier);
  }

  created(id: string, entry: SandboxEntry | undefined): void {
    this.#created.set(id, entry);
  }

  end(dockerName: string, ids: Iterable<string>): void {
    this.#names.delete(dockerName);
    for (const id of ids) this.#created.delete(id);
  }

  get isEmpty(): boolean {
    return this.#names.size === 0;
  }

  /** Whether a sandbox has this id that its call has not finished yet. */
  has(id: string): boolean {
    return this.#created.has(id);
  }

  entry(id: string): SandboxEntry | undefined {
    return this.#created.get(id);
  }

  isHidden({ id, snapshot }: SandboxEntry): boolean {
    const earlier = this.#names.get(properName(snapshot.name));
    return earlier !== undefined && !earlier.has(id);
  }
}

/** A Docker name without the random suffix of a name that was taken. */
export function properName(name: string): string {
  return name.replace(/_[0-9a-f]{8}$/, "");
}
