import { createLogger, type Logger } from "../../../src/lib/log.js";

export interface LogRecord {
  readonly level: string;
  readonly msg: string;
  readonly [key: string]: unknown;
}

const levels: Readonly<Record<string, string>> = { 20: "debug", 30: "info", 40: "warn", 50: "error" };

/** A logger that keeps its records, without their times. */
export function recordingLogger(): { readonly log: Logger; readonly records: LogRecord[] } {
  const records: LogRecord[] = [];
  const write = (line: string): void => {
    const { time: _, level, ...record } = JSON.parse(line) as LogRecord & Record<"time", unknown>;
    records.push({ ...record, level: levels[level] ?? "" });
  };
  return { log: createLogger("debug", { write }), records };
}
