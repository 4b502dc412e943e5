import { ShimError } from "../lib/errors.js";

/** Of a full id: nothing longer begins with it. */
export const idCharacters = 64;

/**
 * The key of one of `indexes` that is `idOrPrefix`, or the only one that begins with it; undefined when there is none.
 * More than one is `invalid`. The indexes have no keys in common.
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
        throw new ShimError(
          "invalid",
          `${what} id "${idOrPrefix}" is ambiguous: more than one begins with it`,
        );
      }
      match = id;
    }
  }
  return match;
}
