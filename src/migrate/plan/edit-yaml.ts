/** Sets one scalar of the first document of a YAML file and keeps every other byte. */

/** Undefined when the text is not one mapping, or when the result would say something else as well. */
export async function setYamlValue(text: string, key: string, value: string): Promise<string | undefined> {
  const { isMap, isScalar, parseAllDocuments } = await import("../../lib/yaml.js");
  const [document, ...others] = [...parseAllDocuments(text)];
  if (document === undefined || document.errors.length > 0 || !isMap(document.contents)) return undefined;
  const pair = document.contents.items.find((item) => isScalar(item.key) && item.key.value === key);
  const range = pair !== undefined && isScalar(pair.value) ? pair.value.range : undefined;
  if (pair !== undefined && range === undefined) return undefined;
  const end = others.length === 0 ? text.length : document.range[1];
  const own = text.slice(0, end);
  const edited =
    range === undefined
      ? `${own}${own === "" || own.endsWith("\n") ? "" : "\n"}${key}: ${value}\n${text.slice(end)}`
      : `${text.slice(0, range[0])}${range[0] === range[1] ? ` ${value}` : value}${text.slice(range[1])}`;
  const [result] = [...parseAllDocuments(edited)];
  if (hasTooManyAliases(document)) return undefined;
  const expected = { ...(document.toJS() as Record<string, unknown>), [key]: value };
  const isRight = result?.errors.length === 0 && isSame(result.toJS(), expected);
  return isRight ? edited : undefined;
}

/** Aliases are counted when they are expanded. */
function hasTooManyAliases(document: { toJS(): unknown }): boolean {
  try {
    document.toJS();
    return false;
  } catch {
    // Left to the operator, as all that is not understood.
    return true;
  }
}

function isSame(one: unknown, other: unknown): boolean {
  const sorted = (value: unknown): unknown =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}
