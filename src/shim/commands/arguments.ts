/** Go's habits on the command line, rewritten to those of commander before it parses. */
import { optionList } from "../config/options.js";
import { commandFlags, ignoredFlags } from "../config/other-flags.js";

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
 * Switches get their value (`--flag` → `--flag=true`), so that none swallows the next argument; `-v4`, `-v=4` and `-v`
 * become the long form; underscores in the names of known flags become hyphens, as the kubelet reads them. All else
 * stays as it is, in particular values and what follows `--`.
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
      // The next argument is this flag's value, whatever it looks like.
      index += 1;
      const next = argv[index];
      if (next !== undefined) result.push(next);
    }
  }
  return result;
}
