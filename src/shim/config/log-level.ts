/** Log levels by the names of logrus (`--log-level`) and by the numbers of klog (`-v`). */
import { ShimError } from "../lib/errors.js";
import type { LogLevel } from "../lib/log.js";
import type { ValueKind } from "./option.js";

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

/** logrus' names in any case. Nothing is logged at the level "panic", so that it equals "fatal"; empty is "info". */
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
