/** Ids, prefixes of ids and label selectors, as requests and list filters have them. */
import { ShimError } from "../lib/errors.js";
import type { Labels } from "./labels.js";

/** Length of a full id: no other id begins with it. */
export const idCharacters = 64;

/** Whether `text` is a full container id as Docker makes them. No other text may become part of a path. */
export function isContainerId(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}

/**
 * The full id in one of `indexes` (maps by id, without common keys) that equals `idOrPrefix` or is the only
 * one that begins with it; undefined when there is none. An ambiguous prefix is `invalid`.
 */
export function findId(
  indexes: readonly ReadonlyMap<string, unknown>[],
  idOrPrefix: string,
  what: string,
): string | undefined {
  if (indexes.some((index) => index.has(idOrPrefix))) return idOrPrefix;
  if (idOrPrefix.length >= idCharacters || idOrPrefix === "") return undefined;
  let match: string | undefined;
  for (const index of indexes) {
    for (const id of index.keys()) {
      if (!id.startsWith(idOrPrefix)) continue;
      if (match !== undefined) {
        const reason = "is ambiguous: more than one begins with it";
        throw new ShimError("invalid", `${what} id "${idOrPrefix}" ${reason}`);
      }
      match = id;
    }
  }
  return match;
}

/** Whether `filter` is empty, the id, or a prefix of it, as with Docker's id filter. */
export function matchesId(id: string, filter: string): boolean {
  return filter === "" || id.startsWith(filter);
}

/** Compares values exactly. `labels` are Docker's, so annotations can be selected by their prefixed keys. */
export function matchesLabels(labels: Labels, selector: Labels): boolean {
  for (const key in selector) {
    if (labels[key] !== selector[key]) return false;
  }
  return true;
}
