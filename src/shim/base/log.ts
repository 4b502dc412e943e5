/** The logger's type and its construction; pino appears nowhere else. */
import { pino, type Logger as PinoLogger } from "pino";

/**
 * One line per record on stderr. Standard keys: rpc, req, pod (namespace/name), sandboxId, containerId, image, ms,
 * code, err. An error is logged once, where it is handled. Never credentials, environment values or exec output.
 */
export type Logger = Pick<
  PinoLogger,
  "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "isLevelEnabled"
> & {
  child(bindings: Record<string, unknown>): Logger;
};

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";

/** A JSON logger on standard error (file descriptor 2), written synchronously so that a crash loses no line. */
export function createLogger(level: LogLevel): Logger {
  return pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: 2, sync: true }),
  );
}

/** A logger that drops everything. */
export function silentLogger(): Logger {
  return pino({ level: "silent" });
}
