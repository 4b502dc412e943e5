/** Readers of untyped values (parsed YAML). They report all fields that they do not know, at any depth. */
import { ShimError } from "../../lib/errors.js";

/** One problem of a document. */
export interface Problem {
  /** `spec.containers[0].livenessProbe`; empty for the document itself. */
  readonly path: string;
  readonly reason: string;
  /** `notHonoured`: valid, but not implemented. `malformed`: invalid. `passedOver`: without meaning here. */
  readonly kind: "notHonoured" | "malformed" | "passedOver";
}

/** Reads the value at `path`. Reports problems and then returns undefined. */
export type Reader<T> = (value: unknown, path: string, problems: Problem[]) => T | undefined;

interface Mandatory<T> {
  readonly mandatory: Reader<T>;
}

type Fields = Readonly<Record<string, Reader<unknown> | Mandatory<unknown>>>;

type Simplify<T> = { readonly [K in keyof T]: T[K] };

/** The type of the objects that `object(fields)` reads. */
type Shape<F extends Fields> = Simplify<
  {
    [K in keyof F as F[K] extends Mandatory<unknown> ? K : never]: F[K] extends Mandatory<infer T>
      ? T
      : never;
  } & {
    [K in keyof F as F[K] extends Mandatory<unknown> ? never : K]?: F[K] extends Reader<infer T> ? T : never;
  }
>;

/** The type that a reader produces. */
export type TypeOf<R> = R extends Reader<infer T> ? T : never;

/** Every field of the kinds that play reads is in its schema: see test/golden/kubernetes-fields.json. */
const unknownField = "is not a field of Kubernetes";

/** A field that must be there. */
export function mandatory<T>(reader: Reader<T>): Mandatory<T> {
  return { mandatory: reader };
}

/** What this program has written. Throws `invalid` for other text, and shows none of it: Secrets are there. */
export function parseStored<T>(text: string, reader: Reader<T>): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ShimError("invalid", "is not JSON");
  }
  const problems: Problem[] = [];
  const read = reader(value, "", problems);
  const problem = problems.find(({ kind }) => kind !== "passedOver");
  // With a problem, parts of what was read may be missing.
  if (read === undefined || problem !== undefined)
    throw new ShimError("invalid", `${problem?.path ?? ""} ${problem?.reason ?? ""}`.trim());
  return read;
}

/** Readers of text that has a rule. */
const texts = new WeakSet<Reader<unknown>>();

function ofText<T>(reader: Reader<T>): Reader<T> {
  texts.add(reader);
  return reader;
}

/** The Kubernetes API server cannot tell an empty text from none. Where it has a meaning, its reader takes it. */
function isUnset(field: unknown, known: Fields[string]): boolean {
  if (field !== "" || typeof known !== "function" || !texts.has(known)) return false;
  const problems: Problem[] = [];
  known(field, "", problems);
  return problems.some(({ kind }) => kind === "malformed");
}

/** An object of known fields. A null field counts as absent, as it does for the Kubernetes API server. */
export function object<const F extends Fields>(fields: F): Reader<Shape<F>> {
  return (value, path, problems) => {
    if (!isObject(value)) {
      problems.push(malformed(path, "must be a mapping"));
      return undefined;
    }
    const result: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(value)) {
      if (field === null || field === undefined) continue;
      const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
      if (known === undefined) {
        problems.push(malformed(join(path, name), unknownReason(name, Object.keys(fields))));
        continue;
      }
      if (isUnset(field, known)) continue;
      const reader = typeof known === "function" ? known : known.mandatory;
      result[name] = reader(field, join(path, name), problems);
    }
    for (const [name, field] of Object.entries(fields)) {
      if (typeof field === "function") continue;
      if (value[name] === undefined || value[name] === null)
        problems.push(malformed(join(path, name), "is missing"));
    }
    // Each field has the type of its reader. After a failed reader there is a problem, and the result is not
    // used.
    return result as Shape<F>;
  };
}

export function list<T>(item: Reader<T>): Reader<readonly T[]> {
  return (value, path, problems) => {
    if (!Array.isArray(value)) {
      problems.push(malformed(path, "must be a list"));
      return undefined;
    }
    return value.map((entry: unknown, index) => item(entry, `${path}[${index}]`, problems) as T);
  };
}

/** A mapping of any names to values of one kind. */
export function mapOf<T>(item: Reader<T>): Reader<Readonly<Record<string, T>>> {
  return (value, path, problems) => {
    if (!isObject(value)) {
      problems.push(malformed(path, "must be a mapping"));
      return undefined;
    }
    const result: Record<string, T> = {};
    for (const [name, entry] of Object.entries(value)) {
      const read = item(entry, join(path, name), problems);
      if (read !== undefined) define(result, name, read);
    }
    return result;
  };
}

/** Text; `check` returns the reason to refuse it. Unquoted numbers and booleans of YAML are not text. */
export function string(check?: (text: string) => string | undefined): Reader<string> {
  return ofText((value, path, problems) => {
    const reason = typeof value === "string" ? textProblem(value, check) : "must be a string (quote it)";
    if (reason !== undefined) problems.push(malformed(path, reason));
    return typeof value === "string" ? value : undefined;
  });
}

export function integer(minimum: number, maximum: number): Reader<number> {
  return (value, path, problems) => {
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= minimum && value <= maximum)
      return value;
    problems.push(malformed(path, `must be a whole number from ${minimum} to ${maximum}`));
    return undefined;
  };
}

export function boolean(): Reader<boolean> {
  return (value, path, problems) => {
    if (typeof value === "boolean") return value;
    problems.push(malformed(path, "must be true or false"));
    return undefined;
  };
}

/** One of `honoured`. Values in `known` are not honoured here, for the given reason. All others are malformed. */
export function oneOf<const T extends string>(
  honoured: readonly T[],
  known: Readonly<Record<string, string>> = {},
): Reader<T> {
  return ofText((value, path, problems) => {
    const match = honoured.find((candidate) => candidate === value);
    if (match !== undefined) return match;
    if (typeof value === "string" && Object.hasOwn(known, value)) {
      problems.push({
        path,
        reason: `${JSON.stringify(value)} is ${known[value] ?? ""}`,
        kind: "notHonoured",
      });
      return undefined;
    }
    const choices = [...honoured, ...Object.keys(known)].map((choice) => JSON.stringify(choice)).join(", ");
    problems.push(malformed(path, `must be one of ${choices}`));
    return undefined;
  });
}

/** A field with one value that has no effect (`false`, an empty mapping). All other values are not honoured. */
export function onlyIf(harmless: (value: unknown) => boolean, reason: string): Reader<never> {
  return (value, path, problems) => {
    if (!harmless(value)) problems.push({ path, reason, kind: "notHonoured" });
    return undefined;
  };
}

/** A field of any value that play refuses, for the given reason. */
export function notHonoured(reason: string): Reader<never> {
  return onlyIf(() => false, reason);
}

/** A field of any value that play leaves out of account, for the given reason. */
export function passedOver(reason: string): Reader<never> {
  return (_, path, problems) => {
    problems.push({ path, reason, kind: "passedOver" });
    return undefined;
  };
}

/** A field that is left out of account, except that another field may refer to its value. */
export function passedOverBut<T>(reader: Reader<T>, reason: string): Reader<T> {
  const read: Reader<T> = (value, path, problems) => {
    problems.push({ path, reason, kind: "passedOver" });
    return reader(value, path, problems);
  };
  return texts.has(reader) ? ofText(read) : read;
}

/** Any value; it is not looked at, and has no effect on one node. */
export function anything(): Reader<never> {
  return () => undefined;
}

export function malformed(path: string, reason: string): Problem {
  return { path, reason, kind: "malformed" };
}

function textProblem(
  text: string,
  check: ((text: string) => string | undefined) | undefined,
): string | undefined {
  const reason = text.includes("\0") ? "must not contain a NUL character" : check?.(text);
  return reason !== undefined && hasPlaceholder(text) ? renderFirst : reason;
}

/** Templates of Helm and of other users of Go templates. */
export function hasPlaceholder(text: string): boolean {
  return /\{\{.*\}\}/.test(text);
}

export const renderFirst =
  "has a template placeholder {{ }}: render it first, as in `helm template CHART | dockershim play -`";

function unknownReason(name: string, known: readonly string[]): string {
  const similar = known.find((one) => one.toLowerCase() === name.toLowerCase());
  return similar === undefined ? unknownField : `${unknownField}: the field is ${similar}`;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `a` + `b` → `a.b`; quotes keys that are not plain words: `metadata.labels["app.kubernetes.io/name"]`. */
export function join(path: string, name: string): string {
  if (!/^[A-Za-z_][\w-]*$/.test(name)) return `${path}[${JSON.stringify(name)}]`;
  return path === "" ? name : `${path}.${name}`;
}

/** Also sets names such as `__proto__`, unlike an assignment. */
export function define<T>(target: Record<string, T>, name: string, value: T): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}
