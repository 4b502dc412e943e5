/**
 * The flags of the table as commander's options. Spellings of Go are rewritten before commander parses:
 * commander would take the argument after a switch as its value and a value with a dash as a flag, and does
 * not know `-v4` and names with underscores.
 */
import { type Command, type CommanderError, Option } from "commander";
import { ShimError } from "../lib/errors.js";
import { defaultOf } from "../shim/config/option.js";
import { optionList } from "../shim/config/options.js";
import { commandFlags, ignoredFlags } from "../shim/config/other-flags.js";
import type { GivenFlag } from "../shim/config/resolve.js";
import { booleanKind } from "../shim/config/value-kinds.js";
import type { CommandParts } from "./command-parts.js";
import { parseFlag } from "./flag-values.js";
import { flagHint, otherCommand, podVerbHint, refuseTimeAfter } from "./hints.js";
import { didYouMean, nearestName } from "../shim/config/given.js";

/** Every flag of the table with whether it is a switch, aliases and ignored flags included. */
export function knownFlags(): Map<string, { readonly isBoolean: boolean }> {
  const flags = new Map<string, { readonly isBoolean: boolean }>();
  for (const [, { name, aliases = [], kind }] of optionList) {
    for (const flag of [name, ...aliases]) flags.set(flag, { isBoolean: kind.isBoolean === true });
  }
  for (const { name, isBoolean } of ignoredFlags) flags.set(name, { isBoolean: isBoolean === true });
  for (const { name, placeholder } of commandFlags) flags.set(name, { isBoolean: placeholder === undefined });
  return flags;
}

/**
 * Switches get a value (`--flag` → `--flag=true`), so that they do not take the next argument. `-v4`, `-v=4`
 * and `-v` become the long form. As with the kubelet, underscores in names of known flags become hyphens.
 * Values and arguments after `--` stay as they are.
 */
export function normalizeArguments(argv: readonly string[]): string[] {
  const flags = knownFlags();
  const result: string[] = [];
  for (let index = 0; index < argv.length; index += 1) {
    const argument = argv[index] ?? "";
    if (argument === "--") return [...result, ...argv.slice(index)];
    const [, short] = /^-v=?(.*)$/s.exec(argument) ?? [];
    const long =
      short === undefined ? argument : short === "" && !argument.endsWith("=") ? "--v" : `--v=${short}`;
    const [, spelled, value] = /^--([^=]+)(=.*)?$/s.exec(long) ?? [];
    const name = spelled?.replaceAll("_", "-") ?? "";
    const flag = flags.get(name);
    if (flag === undefined) {
      result.push(argument);
    } else if (value !== undefined) {
      result.push(`--${name}${value}`);
    } else if (flag.isBoolean) {
      result.push(`--${name}=true`);
    } else {
      result.push(`--${name}`);
      // The next argument is this flag's value, even if it begins with a dash.
      index += 1;
      const next = argv[index];
      if (next !== undefined) result.push(next);
    }
  }
  return result;
}

/**
 * Switches of commands as commander takes them: `--follow=true`, as kubectl has it, becomes `--follow`, and with
 * `false` the switch is not given. `-n=shop` becomes `-n shop`. A flag whose value may be missing, as `--wait`, does
 * not take the next argument for it.
 */
export function plainSwitches(argv: readonly string[], root: Command): string[] {
  let command = root;
  let isAtCommand = true;
  let result: string[] = [];
  for (let index = 0; index < argv.length; index += 1) {
    const argument = argv[index] ?? "";
    if (argument === "--") return [...result, ...argv.slice(index)];
    const [, name = argument, value] = /^(--[^=]+|-[^-=])=(.*)$/s.exec(argument) ?? [];
    const option = command.options.find(({ long, short }) => long === name || short === name);
    const isSwitch = option !== undefined && !option.required && !option.optional;
    if (isSwitch && value !== undefined) {
      if (parseFlag(option.long ?? name, value, booleanKind)) result.push(name);
      else result = result.filter((each) => each !== option.long && each !== option.short);
    } else if (option?.optional === true && value === undefined) {
      refuseTimeAfter(name, argv[index + 1]);
      result.push(`${name}=`);
    } else if (option?.required === true && (value === undefined || name === option.short)) {
      // The next argument is this flag's value.
      result.push(name, ...(value === undefined ? argv.slice(++index, index + 1) : [value]));
    } else {
      result.push(argument);
      if (argument.startsWith("-")) continue;
      const child: Command | undefined = isAtCommand
        ? command.commands.find((each) => each.name() === argument)
        : undefined;
      isAtCommand = child !== undefined;
      command = child ?? command;
    }
  }
  return result;
}

/** Declares every flag on `command`. Its parser appends flags to `given`, unparsed and in order. */
export function addServeFlags(
  command: Command,
  { serveFlags: given, programName }: Pick<CommandParts, "serveFlags" | "programName">,
): void {
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
  for (const [, option] of optionList) {
    const { name, aliases = [], kind, help, group, defaultShown } = option;
    const placeholder = kind.isBoolean === true ? `[${kind.placeholder}]` : `<${kind.placeholder}>`;
    add(name, placeholder, `${help} (default: ${defaultShown ?? defaultOf(option, programName)})`, group);
    for (const alias of aliases) add(alias, placeholder, `Same as --${name}`, group);
  }
  for (const { name, isBoolean, reason } of ignoredFlags) {
    add(name, isBoolean === true ? "[true|false]" : "<value>", `Ignored: ${reason}`, undefined);
  }
}

/** Whether the switch `name` was given as true. Throws `invalid` when its value is neither true nor false. */
export function isSwitchedOn(given: readonly GivenFlag[], name: string): boolean {
  const flag = given.findLast((each) => each.name === name);
  return flag !== undefined && parseFlag(`--${name}`, flag.text, booleanKind);
}

/** Throws for flags of the server before a command that does not use them. */
export function refuseServeFlags(given: readonly GivenFlag[], command: string): void {
  const [first] = given;
  if (first === undefined) return;
  throw new ShimError("invalid", `flag "--${first.name}": has no meaning for the command "${command}"`);
}

/**
 * For `command.exitOverride`: turns an error of commander into one line that names flag, value and reason.
 */
export function usageErrorsOf(command: Command): (error: CommanderError) => void {
  return (error) => {
    if (error.exitCode === 0) throw error;
    // The texts have several lines. The first quotes contain the flag.
    const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? "";
    if (error.code === "commander.unknownOption") {
      throw new ShimError("invalid", unknownFlag(quoted.replace(/=.*$/s, ""), command));
    }
    if (error.code === "commander.optionMissingArgument") {
      const flag = /--[^ ,]+/.exec(quoted)?.[0] ?? quoted;
      throw new ShimError("invalid", `flag "${flag}": needs a value`);
    }
    throw new ShimError("invalid", error.message.replace(/^error: /, "").replaceAll(/\s*\n\s*/g, " "));
  };
}

function unknownFlag(flag: string, command: Command): string {
  const name = flag.replace(/^-+/, "").replaceAll("_", "-");
  const offered = command.options
    .filter((option) => !option.hidden)
    .map((option) => (option.long ?? "").slice(2));
  const ofCommand = command.parent === null ? "" : ` of the command "${command.name()}"`;
  const commands = command.commands.map((child) => child.name());
  const [word = ""] = command.args;
  const meant = command.name() === "pod" && !word.startsWith("-") ? podVerbHint(word, commands) : "";
  if (meant !== "") return `command "pod": ${JSON.stringify(word)}${meant}`;
  const other = command.parent === null ? otherCommand(word) : undefined;
  if (other !== undefined) return `unexpected argument ${JSON.stringify(word)}: ${other}`;
  const behind = command.parent === null ? undefined : commands.find((child) => command.args.includes(child));
  if (behind !== undefined) {
    const whole = `dockershim ${command.name()} ${behind} ${flag}`;
    return `unknown flag "${flag}"${ofCommand}: flags stand behind the command, as in "${whole}"`;
  }
  const hint = flagHint(command.name(), flag);
  if (hint !== undefined) return `unknown flag "${flag}"${ofCommand}: ${hint}`;
  return `unknown flag "${flag}"${ofCommand}${didYouMean(name, [...offered, "help"], (nearest) => `--${nearest}`)}`;
}

/** Throws for arguments of a command that takes none. */
export function refuseArguments(command: Command): void {
  const [first] = command.args;
  if (first === undefined) return;
  const other = command.parent === null ? otherCommand(first) : undefined;
  if (other !== undefined)
    throw new ShimError("invalid", `unexpected argument ${JSON.stringify(first)}: ${other}`);
  const nearest = nearestName(
    first,
    command.commands.map((child) => child.name()),
  );
  const hint = nearest === undefined ? "" : `: did you mean the command "${nearest}"?`;
  throw new ShimError("invalid", `unexpected argument ${JSON.stringify(first)}${hint}`);
}
