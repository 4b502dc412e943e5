/** The hash of objects. */
import { createHash } from "node:crypto";
import { isObject } from "./schema.js";

/** SHA-256 of the content; the order of keys does not matter. */
export function hashOf(value: unknown): string {
  return createHash("sha256")
    .update(JSON.stringify(sorted(value)))
    .digest("hex");
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([, entry]) => entry !== null && entry !== undefined);
  entries.sort(([left], [right]) => (left < right ? -1 : 1));
  return entries.map(([key, entry]) => [key, sorted(entry)]);
}
