/**
 * Option texts of the user with their source, before they are parsed; options of environment variables;
 * suggestions for unknown names, because commander only suggests flags and does not export that function.
 */
import { type OptionField, optionList, options } from "./options.js";
import { ShimError } from "../../lib/errors.js";
import { environmentName } from "./option.js";

export type GivenSource = "flag" | "environment" | "file";

export interface Given {
  readonly field: OptionField;
  readonly text: string;
  readonly source: GivenSource;
  /** `--state-dir`, `DOCKERSHIM_STATE_DIR`, `/etc/dockershim.yaml:3`. */
  readonly detail: string;
  /** The source as an error message names it: `flag "--state-dir"`. */
  readonly place: string;
}

/** The field that the flag `name` (without dashes) sets, aliases included. */
export function fieldOfFlag(name: string): OptionField | undefined {
  return optionList.find(([, { name: own, aliases }]) => own === name || aliases?.includes(name))?.[0];
}

/** The field whose option has exactly this name; aliases exist only as flags. */
export function fieldOfName(name: string): OptionField | undefined {
  return optionList.find(([, { name: own }]) => own === name)?.[0];
}

export const optionNames: readonly string[] = Object.values(options).map(({ name }) => name);

export type Environment = Readonly<Record<string, string | undefined>>;

/** The variable that names the configuration file. */
export const configFileVariable = "DOCKERSHIM_CONFIG";

/** Variables of `npm start` and of the tests, which set no option. */
const foreign = /^DOCKERSHIM_(?:NO_SETUP|SETUP_REPORT|TEST_.*)$/;

/** All options of `DOCKERSHIM_…` variables. Throws `invalid` for an unknown variable with that prefix. */
export function readEnvironment(environment: Environment): Given[] {
  const known = new Map(optionList.map(([field, { name }]) => [environmentName(name), field]));
  const given: Given[] = [];
  for (const [variable, text] of Object.entries(environment)) {
    if (text === undefined || !variable.startsWith("DOCKERSHIM_")) continue;
    if (variable === configFileVariable || foreign.test(variable)) continue;
    const field = known.get(variable);
    if (field === undefined) {
      const suggestion = didYouMean(variable, [...known.keys(), configFileVariable]);
      throw new ShimError("invalid", `unknown environment variable "${variable}"${suggestion}`);
    }
    given.push({
      field,
      text,
      source: "environment",
      detail: variable,
      place: `environment variable "${variable}"`,
    });
  }
  return given;
}

/** Insertions, deletions, replacements and swaps of neighbours that turn `from` into `to`. */
export function editDistance(from: string, to: string): number {
  let twoBack: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const same = from[row - 1] === to[column - 1];
      let best = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]) {
        best = Math.min(best, (twoBack[column - 2] ?? 0) + 1);
      }
      current.push(best);
    }
    twoBack = previous;
    previous = current;
  }
  return previous[to.length] ?? 0;
}

/** The known name nearest to `name`, or undefined. A known name that contains `name` counts as near. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    const contained = name.length >= 3 && candidate.includes(name);
    const distance = contained ? 1.5 : editDistance(name, candidate);
    if (best === undefined || distance < best.distance) best = { name: candidate, distance };
  }
  if (best === undefined) return undefined;
  const longest = Math.max(name.length, best.name.length);
  return best.distance < longest && best.distance <= Math.max(1, longest * 0.4) ? best.name : undefined;
}

/** `: did you mean "x"?`, or empty when no known name is near. `decorate` adds dashes, for example. */
export function didYouMean(
  name: string,
  known: Iterable<string>,
  decorate: (name: string) => string = (plain) => plain,
): string {
  const nearest = nearestName(name, known);
  return nearest === undefined ? "" : `: did you mean "${decorate(nearest)}"?`;
}
