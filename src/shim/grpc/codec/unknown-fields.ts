/** Fields that proto/ does not know, of a newer kubelet: ignored, counted, and told once. */
import type { Logger } from "../../../lib/log.js";
import type { Observer } from "../../ports/observer.js";

export interface UnknownField {
  /** The type that lacks it: `PodSandboxConfig`. */
  readonly message: string;
  readonly number: number;
}

/** A client can send any number of different ones: all others are counted as one. */
const mostKnown = 100;

/** The unknown fields of one request, each once. */
export class UnknownFieldsOfRequest {
  readonly #fields = new Map<string, UnknownField>();

  add(message: string, number: number): void {
    if (this.#fields.size < mostKnown) this.#fields.set(`${message} ${number}`, { message, number });
  }

  [Symbol.iterator](): IterableIterator<UnknownField> {
    return this.#fields.values();
  }
}

export class UnknownFields {
  readonly #told = new Set<string>();

  constructor(
    private readonly log: Pick<Logger, "info">,
    private readonly observer?: Pick<Observer, "unknownFieldSeen">,
  ) {}

  /** Told of each request with such fields. */
  seen(rpc: string, fields: Iterable<UnknownField>): void {
    for (const { message, number } of fields) {
      const key = `${rpc} ${message} ${number}`;
      const isNew = !this.#told.has(key);
      if (isNew && this.#told.size >= mostKnown) {
        this.observer?.unknownFieldSeen({ rpc: "other", message: "other", field: "other" });
        continue;
      }
      if (isNew) {
        this.#told.add(key);
        this.log.info({ rpc, message, field: number }, "requests have an unknown field, ignored");
      }
      this.observer?.unknownFieldSeen({ rpc, message, field: String(number) });
    }
  }
}
