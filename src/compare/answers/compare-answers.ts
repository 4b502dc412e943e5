/** Compares two answers of one RPC, field by field. Pure. */
import {
  type ListRule,
  type Message,
  isMap,
  isMessage,
  listRule,
  subjectOfAnswer,
  valueAt,
} from "./answer-shape.js";
import { findIntended } from "./find-intended.js";
import type { ServerKind } from "./server-kind.js";
import { type VolatileField, matchesField, volatileFields } from "./volatile-fields.js";

export interface Difference {
  readonly rpc: string;
  /** `pod NAMESPACE/NAME ID`, `container NAMESPACE/POD/NAME ID`, `image NAME ID`, or `server`. */
  readonly subject: string;
  /** Such as `status.network.ip` or `status.mounts[/etc/hosts].readonly`; `error` for that of a side. */
  readonly field: string;
  /** Null where the side has no such field or entry. For an entry of a list that only one side has, its id. */
  readonly left: unknown;
  readonly right: unknown;
  /** Why both programs may differ here, by the table of intended differences. */
  readonly intended?: { readonly key: string; readonly reason: string };
}

/** An answer that is an error, in place of the response. */
export interface ErrorAnswer {
  readonly error: { readonly code: number | string; readonly message: string };
}

export interface CompareOptions {
  /** Who answered; without it no difference is intended. */
  readonly servers?: { readonly left: ServerKind; readonly right: ServerKind };
  /** For answers that name no object: an error, an image that is absent. Default: `server`. */
  readonly subject?: string;
  /** More fields that may differ, beside those that always may (`volatile-fields.ts`). */
  readonly volatile?: readonly VolatileField[];
}

/**
 * The differences between two answers, in the order of the fields of the left one. Answers are decoded
 * messages (proto-loader with `keepCase` and `longs: String`), JSON of such messages, or an ErrorAnswer.
 *
 * A field that is absent has the default of its type. Entries of lists are matched by id, path or name, not
 * by position. Volatile fields are compared by presence.
 */
export function compareAnswers(
  rpc: string,
  left: object,
  right: object,
  options: CompareOptions = {},
): Difference[] {
  const named = subjectOfAnswer(rpc, left) || subjectOfAnswer(rpc, right);
  const errors = [left, right].map((answer) => valueAt(answer, "error") ?? null);
  const isError = errors.some((error) => error !== null);
  const subject = (isError ? options.subject : undefined) ?? (named || (options.subject ?? "server"));
  const comparison = new Comparison(rpc, options);
  const place = { subject, subjectLeft: left, subjectRight: right, field: "", pattern: "", key: "" };
  if (isError) comparison.compare(below(place, "error"), errors[0], errors[1]);
  else comparison.compare(place, left, right);
  return comparison.differences;
}

/** Where a value stands. */
interface Place {
  readonly subject: string;
  /** The entries of lists, or the whole answers, of the subject. */
  readonly subjectLeft: unknown;
  readonly subjectRight: unknown;
  readonly field: string;
  /** The field with `[]` for each `[key]`. */
  readonly pattern: string;
  /** Key of the innermost entry. */
  readonly key: string;
}

function below(place: Place, name: string): Place {
  const join = (path: string): string => (path === "" ? name : `${path}.${name}`);
  return { ...place, field: join(place.field), pattern: join(place.pattern) };
}

function entryOf(place: Place, key: string): Place {
  return { ...place, key, field: `${place.field}[${key}]`, pattern: `${place.pattern}[]` };
}

class Comparison {
  readonly differences: Difference[] = [];

  readonly #volatile: readonly VolatileField[];

  constructor(
    readonly rpc: string,
    readonly options: CompareOptions,
  ) {
    this.#volatile = [...volatileFields, ...(options.volatile ?? [])];
  }

  compare(place: Place, leftValue: unknown, rightValue: unknown): void {
    const left = normalize(leftValue);
    const right = normalize(rightValue);
    const volatile = this.#volatile.find(({ field }) => matchesField(field, place.pattern));
    if (volatile !== undefined) {
      if (volatile.compared === "by presence" && isPresent(left) !== isPresent(right))
        this.#add(place, left, right);
    } else if (Array.isArray(left) || Array.isArray(right)) {
      this.#compareLists(place, listOf(left), listOf(right));
    } else if (isMap(lastName(place.pattern))) {
      this.#compareMaps(place, isMessage(left) ? left : {}, isMessage(right) ? right : {});
    } else if (isMessage(left) && isMessage(right)) {
      for (const name of keysOf(left, right)) this.compare(below(place, name), left[name], right[name]);
    } else if (!areEqual(left, right)) {
      this.#add(place, left, right);
    }
  }

  #compareMaps(place: Place, left: Message, right: Message): void {
    for (const key of keysOf(left, right)) {
      const entry = entryOf(place, key);
      // An empty value is not an absent one.
      if (Object.hasOwn(left, key) && Object.hasOwn(right, key)) this.compare(entry, left[key], right[key]);
      else this.#add(entry, left[key], right[key]);
    }
  }

  #compareLists(place: Place, left: readonly unknown[], right: readonly unknown[]): void {
    const rule = listRule(lastName(place.pattern));
    const lefts = byKey(left, rule);
    const rights = byKey(right, rule);
    for (const key of new Set([...lefts.keys(), ...rights.keys()])) {
      const one = lefts.get(key);
      const other = rights.get(key);
      const subject = rule?.subject?.(one ?? other);
      if (subject === undefined) {
        if (one !== undefined && other !== undefined) this.compare(entryOf(place, key), one, other);
        else this.#add(entryOf(place, key), one, other);
      } else {
        // The subject names the entry.
        const entry = { ...entryOf(place, ""), subject, subjectLeft: one, subjectRight: other };
        if (one !== undefined && other !== undefined) this.compare(entry, one, other);
        else this.#add(entry, one && key, other && key);
      }
    }
  }

  #add(place: Place, leftValue: unknown, rightValue: unknown): void {
    const { rpc, options } = this;
    const { subject, field, pattern, key, subjectLeft, subjectRight } = place;
    const [left, right] = [leftValue ?? null, rightValue ?? null];
    const intended =
      options.servers &&
      findIntended({ rpc, pattern, key, left, right, subjectLeft, subjectRight }, options.servers);
    this.differences.push({
      rpc,
      subject,
      field,
      left,
      right,
      ...(intended === undefined ? {} : { intended: { key: intended.key, reason: intended.reason } }),
    });
  }
}

/** Bytes as text, whether they were decoded or read from JSON. */
function normalize(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  const text = valueAt(value, "base64");
  return typeof text === "string" ? text : value;
}

function isPresent(value: unknown): boolean {
  return !isDefault(value) && !(Array.isArray(value) && value.length === 0);
}

/** Whether `value` is what a scalar field has that was not sent. */
function isDefault(value: unknown): boolean {
  return [undefined, null, "", "0", 0, false].includes(value as null);
}

/** A null message is not an empty one. */
function areEqual(left: unknown, right: unknown): boolean {
  if (isDefault(left) || isDefault(right)) return isDefault(left) && isDefault(right);
  return !isMessage(left) && !isMessage(right) && String(left) === String(right);
}

function keysOf(left: Message, right: Message): Set<string> {
  return new Set([...Object.keys(left), ...Object.keys(right)]);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Entries by key, or by position without a rule; entries of the same key in their order. */
function byKey(list: readonly unknown[], rule: ListRule | undefined): ReadonlyMap<string, unknown> {
  const entries = new Map<string, unknown>();
  const counts = new Map<string, number>();
  for (const [index, entry] of list.entries()) {
    const key = rule?.key(entry) ?? String(index);
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    entries.set(count === 1 ? key : `${key} (${count})`, entry ?? null);
  }
  return entries;
}

/** The name of the field, without entries. */
function lastName(pattern: string): string {
  return /[^.[\]]*$/.exec(pattern)?.[0] ?? "";
}
