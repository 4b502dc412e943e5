import type { Logger } from "../../src/lib/log.js";

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A logger that keeps its lines. */
export function recordingLog(lines: LogLine[] = []): Logger & { readonly lines: readonly LogLine[] } {
  const at =
    (level: string) =>
    (fields: unknown, message?: string): void => {
      if (typeof fields === "string") lines.push({ level, message: fields, fields: {} });
      else lines.push({ level, message: message ?? "", fields: fields as Readonly<Record<string, unknown>> });
    };
  return {
    lines,
    trace: at("trace"),
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    fatal: at("fatal"),
    isLevelEnabled: () => true,
    child: () => recordingLog(lines),
  };
}
