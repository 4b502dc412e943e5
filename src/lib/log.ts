/** The logger's type and its construction; pino appears nowhere else. */
import { pino, type DestinationStream, type Logger as PinoLogger } from "pino";

/**
 * One line per record on stderr. Standard keys: rpc, req, pod (namespace/name), sandboxId, containerId,
 * image, ms, code, err. An error is logged once, where it is handled. Never secrets or exec output.
 */
export interface Logger extends Pick<
  PinoLogger,
  "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "isLevelEnabled"
> {
  /** A logger whose lines have these fields, too; those of a line itself win. */
  child(bindings: Record<string, unknown>): Logger;
}

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";

/** JSON lines, on standard error if not told otherwise, written synchronously so that a crash loses none. */
export function createLogger(
  level: LogLevel,
  destination: DestinationStream = pino.destination({ fd: 2, sync: true }),
): Logger {
  return new BoundLogger(
    pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination),
    {},
  );
}

/** A logger that drops everything. */
export function silentLogger(): Logger {
  return new BoundLogger(pino({ level: "silent" }), {});
}

type Fields = Readonly<Record<string, unknown>>;

/** Not pino's child loggers: they write a key twice that a line has, too, which strict readers refuse. */
class BoundLogger implements Logger {
  constructor(
    private readonly log: PinoLogger,
    private readonly bindings: Fields,
  ) {}

  child(bindings: Fields): Logger {
    return new BoundLogger(this.log, { ...this.bindings, ...bindings });
  }

  isLevelEnabled(level: string): boolean {
    return this.log.isLevelEnabled(level);
  }

  trace(first: unknown, message?: string): void {
    this.#write("trace", first, message);
  }

  debug(first: unknown, message?: string): void {
    this.#write("debug", first, message);
  }

  info(first: unknown, message?: string): void {
    this.#write("info", first, message);
  }

  warn(first: unknown, message?: string): void {
    this.#write("warn", first, message);
  }

  error(first: unknown, message?: string): void {
    this.#write("error", first, message);
  }

  fatal(first: unknown, message?: string): void {
    this.#write("fatal", first, message);
  }

  #write(level: Exclude<LogLevel, "silent">, first: unknown, message: string | undefined): void {
    if (!this.log.isLevelEnabled(level)) return;
    if (typeof first === "string") this.log[level](this.bindings, first);
    else if (first instanceof Error) this.log[level]({ ...this.bindings, err: first }, message);
    else this.log[level]({ ...this.bindings, ...(first as Fields) }, message);
  }
}
