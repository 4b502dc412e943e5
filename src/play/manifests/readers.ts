/** Readers that several schemas share. */
import { dnsSubdomain, notEmpty, qualifiedKey } from "./names.js";
import { parseQuantity } from "../../domain/quantity.js";
import {
  type Problem,
  type Reader,
  boolean,
  integer,
  isObject,
  join,
  malformed,
  mandatory,
  mapOf,
  object,
  string,
} from "./schema.js";

export const id = integer(0, 2 ** 31 - 1);
export const port = integer(1, 65_535);
export const notNegative = integer(0, 2 ** 31 - 1);
export const atLeastOne = integer(1, 2 ** 31 - 1);

export const exitCode = integer(-(2 ** 31), 2 ** 31 - 1);

export const needsApiServer = "needs an API server, which play does not have";
/** Of files that stand-ins.ts makes. */
export const noApiServer = "the file stands for that of an API server, which play does not have";
export const singleNode = "has no meaning on a single node";

/** Kubernetes writes quantities as text, but its manifests may have plain numbers. The result is text. */
export const quantity: (perUnit: 1 | 1000) => Reader<string> = (perUnit) => (value, path, problems) => {
  const text = typeof value === "number" ? String(value) : value;
  const amount = typeof text === "string" ? parseQuantity(text, perUnit) : undefined;
  if (amount === undefined)
    problems.push(malformed(path, 'must be a quantity such as "250m", "0.5" or "128Mi"'));
  else if (amount < 0n) problems.push(malformed(path, "must not be negative"));
  return typeof text === "string" ? text : undefined;
};

/** A mapping whose keys are checked as well. */
export function keyed<T>(
  read: Reader<T>,
  checkKey: (key: string) => string | undefined,
): Reader<Readonly<Record<string, T>>> {
  const values = mapOf(read);
  return (value: unknown, path: string, problems: Problem[]) => {
    for (const key of isObject(value) ? Object.keys(value) : []) {
      const reason = checkKey(key);
      if (reason !== undefined) problems.push(malformed(join(path, key), reason));
    }
    return values(value, path, problems);
  };
}

/** Keys of labels, annotations and selectors. */
export function byQualifiedKey<T>(read: Reader<T>): Reader<Readonly<Record<string, T>>> {
  return keyed(read, qualifiedKey);
}

/** A port by number or by name. */
export function portReference(name: (text: string) => string | undefined): Reader<number | string> {
  const byName = string(name);
  return (value, path, problems) =>
    typeof value === "number" ? port(value, path, problems) : byName(value, path, problems);
}

/** A port of 0 or of no name counts as absent, as in the API server. */
export function unlessUnset<T>(reader: Reader<T>): Reader<T> {
  return (value, path, problems) => (value === 0 || value === "" ? undefined : reader(value, path, problems));
}

export const keyReference = object({
  name: mandatory(string(dnsSubdomain)),
  key: mandatory(string(notEmpty)),
  optional: boolean(),
});
export const objectReference = object({ name: mandatory(string(dnsSubdomain)), optional: boolean() });
export const localReference = object({ name: mandatory(string(dnsSubdomain)) });
