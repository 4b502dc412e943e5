/** The answers that differ on purpose; docs/understand/differences.md has a section that is made of it. */
import type { IntendedDifference, Values } from "./intended-entry.js";
import { intendedOfPods } from "./intended-of-pods.js";
import { intendedOfServers } from "./intended-of-servers.js";
import type { ServerKind } from "./server-kind.js";
import { matchesField } from "./volatile-fields.js";

export const intendedDifferences: readonly IntendedDifference[] = [...intendedOfServers, ...intendedOfPods];

/** A difference between two sides. `pattern` is its field with `[]` for each entry of a list or map. */
export interface FoundDifference {
  readonly rpc: string;
  readonly pattern: string;
  readonly key: string;
  readonly left: unknown;
  readonly right: unknown;
  /** The entries of lists, or the whole answers, that the field belongs to. */
  readonly subjectLeft: unknown;
  readonly subjectRight: unknown;
}

/** The entry of the table for a difference; only this program differs from others on purpose. */
export function findIntended(
  { rpc, pattern, key, left, right, subjectLeft, subjectRight }: FoundDifference,
  servers: { readonly left: ServerKind; readonly right: ServerKind },
): IntendedDifference | undefined {
  const isLeft = servers.left === "dockershim";
  if (isLeft === (servers.right === "dockershim")) return undefined;
  const other = isLeft ? servers.right : servers.left;
  const values: Values = isLeft
    ? { key, here: left, there: right, subjectHere: subjectLeft, subjectThere: subjectRight }
    : { key, here: right, there: left, subjectHere: subjectRight, subjectThere: subjectLeft };
  return intendedDifferences.find(
    ({ against, rpcs, fields, when }) =>
      against.some((kind) => kind === other) &&
      (rpcs === undefined || rpcs.includes(rpc)) &&
      fields.some((field) => matchesField(field, pattern)) &&
      (when === undefined || when(values)),
  );
}
