/** `dockershim pod logs`: the log files of containers, on this host. */
import { StringDecoder } from "node:string_decoder";
import { sleep } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { HostFiles } from "../node/files.js";
import { LineAssembler, parseLogLine } from "../node/log-lines.js";
import { LogTail } from "../node/log-tail.js";

export interface LogOptions {
  readonly follow: boolean;
  /** How many of the last lines; all when undefined. */
  readonly tail: number | undefined;
  /** Only lines since then: milliseconds since 1970. */
  readonly sinceMs: number | undefined;
  /** At most so much is written. */
  readonly limitBytes?: number | undefined;
  readonly timestamps: boolean;
  /** In front of each line. */
  readonly prefix: string;
}

export interface LogSource {
  readonly path: string;
  /** Whether more may come. */
  isRunning(): Promise<boolean>;
}

const pollMs = 250;

/** Writes the output as it is; `pace` is awaited now and then. `notFound` when there is no file. */
export async function readLogs(
  source: LogSource,
  options: LogOptions,
  files: Pick<HostFiles, "openFile">,
  write: (text: string) => void,
  signal: AbortSignal,
  pace?: () => Promise<void>,
): Promise<void> {
  await using log = new LogTail(source.path, files);
  const text = new LogText(options);
  let left = options.limitBytes ?? Infinity;
  const put = (line: string): void => {
    const bytes = Buffer.byteLength(line);
    if (bytes <= left) write(line);
    // Without the bytes of a character that does not fit.
    else if (left > 0) write(new StringDecoder().write(Buffer.from(line).subarray(0, left)));
    left -= bytes;
  };
  // The past: only its last lines are kept.
  let past: string[] = [];
  const { tail } = options;
  const take = (lines: Iterable<string>): void => {
    for (const shown of lines) {
      if (tail === undefined) put(shown);
      else if (tail > 0) past.push(shown);
    }
    if (tail !== undefined && past.length > 2 * tail + 1000) past = past.slice(-tail);
  };
  const isThere = await log.read((line) => take(text.add(line)), pace);
  // A last line without an end is one of the last lines.
  if (!options.follow) take(text.flush());
  if (!isThere)
    throw new ShimError("notFound", `read the log "${source.path}": there is no such file on this host`);
  for (const line of past.slice(-(tail ?? 0))) put(line);
  while (options.follow && left > 0) {
    signal.throwIfAborted();
    // Asked before the read: what an ended container has written is in the file.
    const isRunning = await source.isRunning();
    await log.read((line) => {
      for (const shown of text.add(line)) put(shown);
    }, pace);
    if (!isRunning) break;
    await sleep(pollMs, signal);
  }
  for (const line of text.flush()) put(line);
}

/** Lines of a log file as the lines that are shown. */
class LogText {
  readonly #assembler = new LineAssembler();
  #time = "";

  constructor(private readonly options: LogOptions) {}

  *add(line: string): Generator<string> {
    const piece = parseLogLine(line);
    this.#time = piece.time;
    const text = this.#assembler.add(piece);
    if (text !== undefined) yield* this.#shown(text);
  }

  *flush(): Generator<string> {
    for (const text of this.#assembler.flush()) yield* this.#shown(text);
  }

  *#shown(text: string): Generator<string> {
    const { sinceMs, timestamps, prefix } = this.options;
    if (sinceMs !== undefined && Date.parse(this.#time) < sinceMs) return;
    yield `${prefix}${timestamps ? `${this.#time} ` : ""}${text}\n`;
  }
}
