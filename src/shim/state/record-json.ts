/** What the files of records have in common: readable JSON objects with a version, whose unknown keys are kept. */

export type ParsedRecord<R> =
  | { readonly kind: "record"; readonly record: R }
  /** A later release wrote it. */
  | { readonly kind: "newer"; readonly version: number }
  | { readonly kind: "corrupt"; readonly reason: string };

export type Table = Readonly<Record<string, unknown>>;

/** The object in a file of version 1, its fields not checked. Never throws. */
export function parseRecordJson(bytes: Uint8Array): ParsedRecord<Table> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    return { kind: "corrupt", reason: error instanceof SyntaxError ? "not JSON" : "not UTF-8" };
  }
  if (!isTable(value)) return { kind: "corrupt", reason: "not an object" };
  const version = value["version"];
  const newer = typeof version === "number" && Number.isInteger(version) && version > 1;
  return newer ? { kind: "newer", version } : { kind: "record", record: value };
}

/** Readable JSON; integers beyond 2^53 become decimal strings. */
export function formatRecordJson(record: object): string {
  const text = JSON.stringify(
    record,
    (_, value: unknown) => (typeof value === "bigint" ? String(value) : value),
    2,
  );
  return `${text}\n`;
}

/** Whether a field is as its type says. */
export type FieldCheck = (value: unknown) => boolean;

/** `prefix` and the name of the first field that is not as its check wants it; `prefix` alone when there is no object. */
export function firstWrongField(
  object: unknown,
  checks: Readonly<Record<string, FieldCheck>>,
  prefix: string,
): string | undefined {
  if (!isTable(object)) return prefix;
  const wrong = Object.entries(checks).find(([key, check]) => !check(object[key]));
  return wrong === undefined ? undefined : prefix + wrong[0];
}

/** The part of `object` that this release does not know: a later release wrote it and will want it again. */
export function unknownKeys(object: object, known: readonly string[]): object {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !known.includes(key)));
}

export function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isString(value: unknown): value is string {
  return typeof value === "string";
}
