/** Text that the user gave for an option, with its origin, before it is parsed. */
import { options, optionList, type OptionField } from "./options.js";

export type GivenSource = "flag" | "environment" | "file";

export interface Given {
  readonly field: OptionField;
  readonly text: string;
  readonly source: GivenSource;
  /** `--state-dir`, `DOCKERSHIM_STATE_DIR`, `/etc/dockershim.yaml:3`. */
  readonly detail: string;
  /** The same for the beginning of an error message: `flag "--state-dir"`. */
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
