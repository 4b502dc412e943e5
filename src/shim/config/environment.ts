/** Options from environment variables. */
import { ShimError } from "../lib/errors.js";
import type { Given } from "./given.js";
import { didYouMean } from "./nearest.js";
import { environmentName } from "./option.js";
import { optionList } from "./options.js";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The variable that names the configuration file. */
export const configFileVariable = "DOCKERSHIM_CONFIG";

/** Variables of `npm start` and of the tests, which set no option. */
const foreign = /^DOCKERSHIM_(?:NO_SETUP|SETUP_REPORT|TEST_.*)$/;

/** All options given by `DOCKERSHIM_…` variables. Throws `invalid` for such a variable that is not known. */
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
