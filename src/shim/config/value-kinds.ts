/** Kinds of option values: text in, checked value out. */
import { isIP } from "node:net";
import { isAbsolute, normalize } from "node:path/posix";
import { ShimError } from "../../lib/errors.js";
import { formatGoDuration, parseGoDuration } from "./go-duration.js";
import type { ValueKind } from "./option.js";
import { imagePatternFault } from "../../domain/image-reference.js";
import type { LogLevel } from "../../lib/log.js";

function refuse(reason: string): never {
  throw new ShimError("invalid", reason);
}

/** Go's spellings of true and false. */
export const booleanKind: ValueKind<boolean> = {
  placeholder: "true|false",
  isBoolean: true,
  parse(text) {
    if (/^(?:1|t|T|true|TRUE|True)$/.test(text)) return true;
    if (/^(?:0|f|F|false|FALSE|False)$/.test(text)) return false;
    return refuse("must be true or false");
  },
  format: (value) => value,
};

/** Decimal integers from `min` to `max`, and `also`. */
export function integerKind(range: { min: number; max: number; also?: number }): ValueKind<number> {
  return {
    placeholder: "number",
    parse(text) {
      if (!/^[+-]?\d+$/.test(text)) refuse("is not a whole number");
      const value = Number(text);
      if (value === range.also || (value >= range.min && value <= range.max)) return value;
      const also = range.also === undefined ? "" : `${range.also} or `;
      return refuse(`must be ${also}from ${range.min} to ${range.max}`);
    },
    format: (value) => value,
  };
}

/** Milliseconds. Zero becomes `zeroMeansMs`; without that, zero is refused. */
export function durationKind(rule: { zeroMeansMs?: number } = {}): ValueKind<number> {
  return {
    placeholder: "duration",
    parse(text) {
      const milliseconds = parseGoDuration(text);
      if (milliseconds !== 0) return milliseconds;
      return rule.zeroMeansMs ?? refuse("must be more than 0");
    },
    format: formatGoDuration,
  };
}

/** `"a", "b" or "c"`. */
function alternatives(values: readonly string[]): string {
  const quoted = values.map((value) => `"${value}"`);
  const last = quoted.pop() ?? "";
  return quoted.length === 0 ? last : `${quoted.join(", ")} or ${last}`;
}

/** One of `values`, or a synonym of one of them. */
export function enumKind<const T extends string>(
  values: readonly T[],
  rule: { synonyms?: Readonly<Record<string, T>>; hint?: string } = {},
): ValueKind<T> {
  return {
    placeholder: values.join("|"),
    parse(text) {
      const known = values.find((value) => value === text);
      if (known !== undefined) return known;
      const synonyms = rule.synonyms ?? {};
      if (Object.hasOwn(synonyms, text) && synonyms[text] !== undefined) return synonyms[text];
      const hint = rule.hint === undefined ? "" : ` (${rule.hint})`;
      return refuse(`must be ${alternatives(values)}${hint}`);
    },
    format: (value) => value,
  };
}

/** Empty text is undefined, "not set"; any other is of `kind`. */
export function optional<T>(kind: ValueKind<T>): ValueKind<T | undefined> {
  return {
    ...kind,
    parse: (text) => (text === "" ? undefined : kind.parse(text)),
    format: (value) => (value === undefined ? "" : kind.format(value)),
  };
}

function parsePath(text: string): string {
  if (text === "") refuse("must not be empty");
  if (text.includes("\0")) refuse("must not contain a NUL character");
  if (!isAbsolute(text)) refuse("must be an absolute path");
  const path = normalize(text);
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

/** An absolute, normalized path, because the working directory of a daemon is arbitrary. */
export const pathKind: ValueKind<string> = {
  placeholder: "path",
  parse: parsePath,
  format: (value) => value,
};

/** Absolute paths, separated by commas; at least one. */
export const pathListKind: ValueKind<readonly string[]> = {
  placeholder: "path,…",
  isList: true,
  parse: (text) => [...new Set(text.split(",").map((part) => parsePath(part.trim())))],
  format: (value) => value,
};

/** The same, or none. */
export const emptyPathListKind: ValueKind<readonly string[]> = {
  ...pathListKind,
  parse: (text) => (text === "" ? [] : pathListKind.parse(text)),
};

function parseCidr(text: string): string {
  const [, address = "", prefix = ""] = /^([^/]*)\/(\d{1,3})$/.exec(text) ?? [];
  const family = isIP(address);
  if (family === 0 || address.includes("%") || Number(prefix) > (family === 4 ? 32 : 128)) {
    refuse('is not a network in CIDR form, such as "10.244.0.0/16"');
  }
  return text;
}

/** No network, one, or one of each IP family, separated by a comma. */
export const dualStackCidrsKind: ValueKind<readonly string[]> = {
  placeholder: "CIDR[,CIDR]",
  isList: true,
  parse(text) {
    if (text === "") return [];
    const cidrs = text.split(",").map((part) => parseCidr(part.trim()));
    const families = new Set(cidrs.map((cidr) => cidr.includes(":")));
    if (families.size !== cidrs.length) refuse("may name at most one IPv4 and one IPv6 network");
    return cidrs;
  },
  format: (value) => value,
};

/** One network, or one of each IP family. */
export const requiredCidrsKind: ValueKind<readonly string[]> = {
  ...dualStackCidrsKind,
  parse: (text) => (text === "" ? refuse("is empty") : dualStackCidrsKind.parse(text)),
};

/** Patterns of image names, separated by commas; none when empty. */
export const imagePatternsKind: ValueKind<readonly string[]> = {
  placeholder: "pattern,…",
  isList: true,
  parse(text) {
    if (text === "") return [];
    const patterns = [...new Set(text.split(",").map((part) => part.trim()))];
    for (const pattern of patterns) {
      const fault = imagePatternFault(pattern);
      if (fault !== undefined) throw new ShimError("invalid", `pattern ${JSON.stringify(pattern)} ${fault}`);
    }
    return patterns;
  },
  format: (value) => value,
};

const logrusLevels: Readonly<Record<string, LogLevel>> = {
  panic: "fatal",
  fatal: "fatal",
  error: "error",
  warn: "warn",
  warning: "warn",
  info: "info",
  debug: "debug",
  trace: "trace",
};

/**
 * Level names of logrus in any case. "panic" means "fatal", because no message has that level; empty means
 * "info".
 */
export const logLevelKind: ValueKind<LogLevel> = {
  placeholder: "level",
  parse(text) {
    const name = text.toLowerCase();
    if (name === "") return "info";
    const level = Object.hasOwn(logrusLevels, name) ? logrusLevels[name] : undefined;
    if (level !== undefined) return level;
    throw new ShimError("invalid", `must be one of ${Object.keys(logrusLevels).join(", ")}`);
  },
  format: (value) => value,
};

/** klog's convention: 0 to 3 for operators, 4 and 5 for debugging, above that every call. */
export function logLevelOfVerbosity(verbosity: number): LogLevel {
  if (verbosity >= 6) return "trace";
  return verbosity >= 4 ? "debug" : "info";
}
