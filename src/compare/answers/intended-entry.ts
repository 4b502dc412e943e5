/** One entry of the table of intended differences, and the conditions that entries share. */
import { textAt } from "./answer-shape.js";
import type { ServerKind } from "./server-kind.js";

/** The programs that this one is compared with. */
export type OtherServer = Exclude<ServerKind, "dockershim" | "other">;

/** The two values of a field; null where a side has none. */
export interface Values {
  readonly there: unknown;
  readonly here: unknown;
  /** The key in the innermost list or map, such as that of a label. */
  readonly key: string;
  /** The entry of the list, or the whole answer, that the field belongs to. */
  readonly subjectThere: unknown;
  readonly subjectHere: unknown;
}

export interface IntendedDifference {
  readonly key: string;
  readonly against: readonly OtherServer[];
  /** Every RPC when it is left out. */
  readonly rpcs?: readonly string[];
  /** As in `VolatileField`: `[]` is an entry of a list or map, a leading `*` any beginning. */
  readonly fields: readonly string[];
  /** Where the field alone does not decide. */
  readonly when?: (values: Values) => boolean;
  /** For docs/understand/differences.md: the subject, what they answer, what this program answers. */
  readonly what: string;
  readonly they: string;
  readonly here: string;
  /** No full stop. */
  readonly reason: string;
  /** A link to more, for docs/understand/differences.md. */
  readonly see?: string;
}

export function onlyHere({ there, here }: Values): boolean {
  return isUnset(there) && !isUnset(here);
}

export function onlyThere({ there, here }: Values): boolean {
  return !isUnset(there) && isUnset(here);
}

export function onlyOnOneSide({ there, here }: Values): boolean {
  return (there === null) !== (here === null);
}

/** Enumerated values by number. */
export function areValues(there: number | string, here: number | string): (values: Values) => boolean {
  return (values) => textOf(values.there) === String(there) && textOf(values.here) === String(here);
}

export function textOf(value: unknown): string {
  return textAt({ value }, "value");
}

function isUnset(value: unknown): boolean {
  return [null, undefined, "", "0", 0, false].includes(value as null);
}
