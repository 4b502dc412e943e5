/** Tokens that open a session once. They authorize commands in containers, so they are never logged. */
import { createHash, randomBytes } from "node:crypto";
import { ShimError } from "../../lib/errors.js";

const tokenLifetimeMs = 60_000;
/** As in the kubelet's own server. */
const maxOpenTokens = 1000;
const tokenBytes = 32;

export interface TokenTableOptions {
  readonly lifetimeMs?: number;
  readonly maxOpen?: number;
  /** Milliseconds of a clock that only goes forward. */
  readonly now?: () => number;
}

/** Expired entries are removed by a timer that does not keep the process alive. */
export class TokenTable<T> {
  /** By the hash of the token: the time of a look-up reveals nothing about tokens. In order of expiry. */
  readonly #entries = new Map<string, { readonly value: T; readonly expiresMs: number }>();
  readonly #lifetimeMs: number;
  readonly #maxOpen: number;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;

  constructor({ lifetimeMs = tokenLifetimeMs, maxOpen = maxOpenTokens, now }: TokenTableOptions = {}) {
    this.#lifetimeMs = lifetimeMs;
    this.#maxOpen = maxOpen;
    this.#now = now ?? (() => performance.now());
  }

  get size(): number {
    return this.#entries.size;
  }

  /** A new token for `value`, safe in a URL. Throws `exhausted` when too many wait for their client. */
  add(value: T): string {
    this.#dropExpired();
    if (this.#entries.size >= this.#maxOpen) {
      throw new ShimError("exhausted", "maximum number of in-flight requests exceeded");
    }
    const token = randomBytes(tokenBytes).toString("base64url");
    this.#entries.set(keyOf(token), { value, expiresMs: this.#now() + this.#lifetimeMs });
    this.#watch();
    return token;
  }

  /** The value of the token, once; undefined when it is unknown, used or expired. */
  take(token: string): T | undefined {
    const key = keyOf(token);
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (this.#entries.size === 0) this.#unwatch();
    return entry === undefined || entry.expiresMs <= this.#now() ? undefined : entry.value;
  }

  /** Forgets all. */
  clear(): void {
    this.#entries.clear();
    this.#unwatch();
  }

  #dropExpired(): void {
    const now = this.#now();
    for (const [key, { expiresMs }] of this.#entries) {
      if (expiresMs > now) break;
      this.#entries.delete(key);
    }
    if (this.#entries.size === 0) this.#unwatch();
  }

  /** A session that is not opened must not keep its objects in memory until the next offer. */
  #watch(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#dropExpired();
      if (this.#entries.size > 0) this.#watch();
    }, this.#lifetimeMs);
    this.#timer.unref();
  }

  #unwatch(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

function keyOf(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
