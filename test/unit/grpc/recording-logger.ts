import type { Logger } from "../../../src/lib/log.js";

export interface LogRecord {
  readonly level: string;
  readonly msg: string;
  readonly [key: string]: unknown;
}

/** A logger that keeps its records. */
export function recordingLogger(): { readonly log: Logger; readonly records: LogRecord[] } {
  const records: LogRecord[] = [];
  const make = (bindings: Record<string, unknown>): Logger => {
    const write =
      (level: string) =>
      (first: unknown, second?: unknown): void => {
        const fields = typeof first === "object" ? first : {};
        records.push({
          ...bindings,
          ...fields,
          level,
          msg: String(typeof first === "string" ? first : second),
        });
      };
    return {
      trace: write("trace"),
      debug: write("debug"),
      info: write("info"),
      warn: write("warn"),
      error: write("error"),
      fatal: write("fatal"),
      isLevelEnabled: () => true,
      child: (more: Record<string, unknown>) => make({ ...bindings, ...more }),
    } as Logger;
  };
  return { log: make({}), records };
}
