/** The flags of the table as commander's options. */
import { Option, type Command } from "commander";
import { ShimError } from "../lib/errors.js";
import { optionList } from "../config/options.js";
import { commandFlags, ignoredFlags } from "../config/other-flags.js";
import type { GivenFlag } from "../config/resolve.js";
import { booleanKind } from "../config/value-kinds.js";

/** Declares every flag on `command`; what is given is appended to `given`, unparsed and in order. */
export function addServeFlags(command: Command, given: GivenFlag[]): void {
  const add = (name: string, placeholder: string, help: string, group: string | undefined): void => {
    const declared = new Option(`${name === "v" ? "-v, " : ""}--${name} ${placeholder}`, help);
    declared.argParser((text: string) => {
      given.push({ name, text });
    });
    if (group === undefined) declared.hideHelp();
    else declared.helpGroup(`${group}:`);
    command.addOption(declared);
  };
  for (const { name, placeholder, help } of commandFlags) {
    add(name, placeholder === undefined ? "[true|false]" : `<${placeholder}>`, help, "General");
  }
  for (const [, { name, aliases = [], kind, help, group, default: text, defaultShown }] of optionList) {
    const placeholder = kind.isBoolean === true ? `[${kind.placeholder}]` : `<${kind.placeholder}>`;
    add(name, placeholder, `${help} (default: ${defaultShown ?? text})`, group);
    for (const alias of aliases) add(alias, placeholder, `Same as --${name}`, group);
  }
  for (const { name, isBoolean, reason } of ignoredFlags) {
    add(name, isBoolean === true ? "[true|false]" : "<value>", `Ignored: ${reason}`, undefined);
  }
}

/** Whether the switch `name` was given as true. Throws `invalid` when its value is neither true nor false. */
export function isSwitchedOn(given: readonly GivenFlag[], name: string): boolean {
  const flag = given.findLast((each) => each.name === name);
  if (flag === undefined) return false;
  try {
    return booleanKind.parse(flag.text);
  } catch (error) {
    throw ShimError.from(error).within(`flag "--${name}": ${JSON.stringify(flag.text)}`);
  }
}

/** Throws for flags of the server that stand before a command for which they mean nothing. */
export function refuseServeFlags(given: readonly GivenFlag[], command: string): void {
  const [first] = given;
  if (first === undefined) return;
  throw new ShimError("invalid", `flag "--${first.name}": has no meaning for the command "${command}"`);
}
