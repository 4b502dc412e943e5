/** What is in the file of a record: JSON whose fields a schema checks. */

export type Table = Readonly<Record<string, unknown>>;

/** Whether a field is as its type says. */
export type FieldCheck = (value: unknown) => boolean;

/** The check of each field that this release knows, by its name; for an object, the checks of its fields. */
export type RecordSchema = Readonly<{ [field: string]: FieldCheck | RecordSchema }>;

/** The schema of `T`: a new field of the type must be in it. */
export type SchemaOf<T> = Readonly<Record<keyof T, FieldCheck | RecordSchema>>;

export interface RecordType<R> {
  /** In names of quarantined files: "pod". */
  readonly kind: string;
  /** What has the id: "sandbox". */
  readonly subject: string;
  /** The name of the id in the record and in log lines: "sandboxId". */
  readonly idField: string;
  readonly schema: RecordSchema;
  idOf(record: R): string;
  /** From the object in the file, which fits the schema. */
  fromFile(object: Table): R;
  /** The text of the file; `formatRecord` unless given. */
  readonly format?: (record: R) => string;
  /** Names of temporary files of earlier releases. */
  readonly temporary?: readonly RegExp[];
}

export type ParsedRecord<R> =
  | { readonly kind: "record"; readonly record: R }
  /** A later release wrote it. */
  | { readonly kind: "newer"; readonly version: number }
  | { readonly kind: "corrupt"; readonly reason: string };

/** Reads a file. Keys that this release does not know stay in the record. Never throws. */
export function parseRecord<R>(
  bytes: Uint8Array,
  type: Pick<RecordType<R>, "schema" | "fromFile">,
): ParsedRecord<R> {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { kind: "corrupt", reason: "not UTF-8" };
  }
  return recordIn(text, type);
}

/** As `parseRecord`, of text. */
export function recordIn<R>(
  text: string,
  { schema, fromFile }: Pick<RecordType<R>, "schema" | "fromFile">,
): ParsedRecord<R> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "corrupt", reason: "not JSON" };
  }
  if (!isTable(value)) return { kind: "corrupt", reason: "not an object" };
  const version = value["version"];
  if (typeof version === "number" && Number.isInteger(version) && version > 1) {
    return { kind: "newer", version };
  }
  const wrong = wrongField(value, schema);
  return wrong === undefined
    ? { kind: "record", record: fromFile(value) }
    : { kind: "corrupt", reason: `${wrong} is missing or malformed` };
}

/** Readable JSON. Big integers become decimal strings: JSON has no exact integers beyond 2^53. */
export function formatRecord(record: object): string {
  const plain = (_: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);
  return `${JSON.stringify(record, plain, 2)}\n`;
}

/** An object whose fields are as `schema` says. */
export function objectOf(schema: RecordSchema): FieldCheck {
  return (value) => isTable(value) && wrongField(value, schema) === undefined;
}

/** An object of any keys. */
export function tableOf(check: FieldCheck): FieldCheck {
  return (value) => isTable(value) && Object.values(value).every(check);
}

export function listOf(check: FieldCheck): FieldCheck {
  return (value) => Array.isArray(value) && value.every(check);
}

/** Missing, or as `check` says. */
export function optional(check: FieldCheck): FieldCheck {
  return (value) => value === undefined || check(value);
}

export function oneOf(words: readonly unknown[]): FieldCheck {
  return (value) => words.includes(value);
}

/** The path of the first field that its check refuses. */
function wrongField(object: Table, schema: RecordSchema): string | undefined {
  for (const [key, check] of Object.entries(schema)) {
    const value = object[key];
    if (typeof check === "function") {
      if (!check(value)) return key;
    } else if (!isTable(value)) {
      return key;
    } else {
      const wrong = wrongField(value, check);
      if (wrong !== undefined) return `${key}.${wrong}`;
    }
  }
  return undefined;
}

/** `next` with those keys of `previous` that only a later release knows. Known optional keys stay away. */
export function keepUnknownKeys<R extends object>(previous: R, next: R, schema: RecordSchema): R {
  const unknown = Object.entries(previous).filter(([key]) => !Object.hasOwn(schema, key));
  const kept: Record<string, unknown> = { ...Object.fromEntries(unknown), ...next };
  for (const [key, nested] of Object.entries(schema)) {
    const before = (previous as Table)[key];
    const after = kept[key];
    if (typeof nested === "object" && isTable(before) && isTable(after)) {
      kept[key] = keepUnknownKeys(before, after, nested);
    }
  }
  // Every key of `next` is there.
  return kept as R;
}

export function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

export function isString(value: unknown): value is string {
  return typeof value === "string";
}
