/** Forgets what was not used for longest beyond `capacity` entries, or weights, but never the newest. */
export class LruMap<K, V> {
  readonly #entries = new Map<K, V>();

  #weight = 0;

  constructor(
    private readonly capacity: number,
    private readonly weigh: (value: V) => number = () => 1,
  ) {}

  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, value);
    }
    return value;
  }

  set(key: K, value: V): void {
    this.delete(key);
    this.#entries.set(key, value);
    this.#weight += this.weigh(value);
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.capacity || this.#entries.size === 1) break;
      this.delete(oldest);
    }
  }

  delete(key: K): void {
    const value = this.#entries.get(key);
    if (this.#entries.delete(key)) this.#weight -= this.weigh(value as V);
  }

  get size(): number {
    return this.#entries.size;
  }
}
