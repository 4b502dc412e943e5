import type { Logger } from "../../src/lib/log.js";

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

interface RecordingLog extends Logger {
  readonly lines: readonly LogLine[];
  linesAt(level: "warn" | "error"): readonly LogLine[];
}

/** A logger that keeps its lines. */
export function recordingLog(lines: LogLine[] = []): RecordingLog {
  const at =
    (level: string) =>
    (fields: unknown, message?: string): void => {
      if (typeof fields === "string") lines.push({ level, message: fields, fields: {} });
      else lines.push({ level, message: message ?? "", fields: fields as Readonly<Record<string, unknown>> });
    };
  return {
    lines,
    linesAt: (wanted) => lines.filter(({ level }) => level === wanted),
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
