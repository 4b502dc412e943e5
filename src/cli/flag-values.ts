/** Values of flags of one command, and errors that name flag, value and reason. */
import { Option } from "commander";
import { ShimError } from "../lib/errors.js";
import type { ValueKind } from "../shim/config/option.js";

/** Throws `invalid`. */
export function parseFlag<T>(flag: string, text: string, kind: Pick<ValueKind<T>, "parse">): T {
  try {
    return kind.parse(text);
  } catch (error) {
    throw ShimError.from(error).within(`flag "${flag}": ${JSON.stringify(text)}`);
  }
}

export function wrongFlag(flag: string, value: unknown, reason: string): ShimError {
  return new ShimError("invalid", `flag "${flag}": ${JSON.stringify(value)}: ${reason}`);
}

export function pageOrJson(): Option {
  return new Option("-o, --output <format>", "page or json").choices(["page", "json"]).default("page");
}

/** For a command that only has others below it: `use` names them. */
export function noSubject(command: string, given: string | undefined, use: string, hint = ""): ShimError {
  const what = given === undefined ? "no subject given" : `${JSON.stringify(given)}${hint}`;
  return new ShimError("invalid", `command "${command}": ${what}; use ${use}`);
}
