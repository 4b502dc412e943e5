/** Go leaves out or nulls what is empty: each reader gives the empty value for that, and wrong types. */

export type Json = Readonly<Record<string, unknown>>;

/** `value` as an object, empty when it is none. */
export function asObject(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

export function objectOf(json: Json, key: string): Json {
  return asObject(json[key]);
}

export function textOf(json: Json, key: string): string {
  const value = json[key];
  return typeof value === "string" ? value : "";
}

export function numberOf(json: Json, key: string): number {
  const value = json[key];
  return typeof value === "number" ? value : 0;
}

export function flagOf(json: Json, key: string): boolean {
  return json[key] === true;
}

/** The objects in a list. */
export function objectsOf(json: Json, key: string): readonly Json[] {
  return asList(json[key]).map(asObject);
}

/** The strings in a list. */
export function textsOf(json: Json, key: string): readonly string[] {
  return asList(json[key]).filter((item) => typeof item === "string");
}

/** A map from strings to strings. */
export function labelsOf(json: Json, key: string): Readonly<Record<string, string>> {
  // fromEntries and not assignment: a label named __proto__ is a label.
  return Object.fromEntries(
    Object.entries(objectOf(json, key)).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string",
    ),
  );
}
