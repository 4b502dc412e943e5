/** `dockershim pod logs`: the log files of containers, on this host. */
import { type FileHandle, open, stat } from "node:fs/promises";
import { sleep } from "../../shim/lib/abort.js";
import { ShimError } from "../../shim/lib/errors.js";
import { LineAssembler, parseLogLine } from "../view/log-lines.js";

export interface LogOptions {
  readonly follow: boolean;
  /** How many of the last lines; all when undefined. */
  readonly tail: number | undefined;
  /** Only lines since then: milliseconds since 1970. */
  readonly sinceMs: number | undefined;
  readonly timestamps: boolean;
  /** In front of each line. */
  readonly prefix: string;
}

export interface LogSource {
  readonly path: string;
  /** Whether more may come. */
  isRunning(): Promise<boolean>;
}

const chunkBytes = 64 * 1024;
/** A longer line without an end is damage. */
const longestLineBytes = 1024 * 1024;
const pollMs = 250;

/** Writes the container's output, as it is. Rejects with `notFound` when there is no file. */
export async function readLogs(
  source: LogSource,
  options: LogOptions,
  write: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  let file = await openLog(source.path);
  const reader = new LogReader(options);
  try {
    // The past: only its last lines are kept.
    let past: string[] = [];
    const { tail } = options;
    await drain(file, reader, (line) => {
      if (tail === undefined) write(line);
      else if (tail > 0) {
        past.push(line);
        if (past.length > 2 * tail + 1000) past = past.slice(-tail);
      }
    });
    for (const line of past.slice(-(tail ?? 0))) write(line);
    while (options.follow) {
      signal.throwIfAborted();
      // Asked before the read: what an ended container has written is in the file.
      const isRunning = await source.isRunning();
      await drain(file, reader, write);
      const next = await rotated(file, source.path);
      if (next !== undefined) {
        await drain(file, reader, write);
        await file.close();
        file = next;
        reader.begin();
        continue;
      }
      if (!isRunning) break;
      await sleep(pollMs, signal);
    }
    for (const line of reader.flush()) write(line);
  } finally {
    await file.close();
  }
}

async function openLog(path: string): Promise<FileHandle> {
  try {
    return await open(path, "r");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
    throw new ShimError(
      "notFound",
      `read the log "${path}": there is no such file on this host`,
      {},
      { cause: error },
    );
  }
}

/** The new file under the same path, when the kubelet or the runtime has rotated the log. */
async function rotated(file: FileHandle, path: string): Promise<FileHandle | undefined> {
  try {
    if ((await stat(path)).ino === (await file.stat()).ino) return undefined;
    return await open(path, "r");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

async function drain(file: FileHandle, reader: LogReader, write: (line: string) => void): Promise<void> {
  if ((await file.stat()).size < reader.offset) reader.begin(); // Cut short in place.
  const buffer = Buffer.alloc(chunkBytes);
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, chunkBytes, reader.offset);
    if (bytesRead === 0) return;
    reader.offset += bytesRead;
    for (const line of reader.add(buffer.subarray(0, bytesRead))) write(line);
  }
}

class LogReader {
  offset = 0;
  readonly #assembler = new LineAssembler();
  #rest = Buffer.alloc(0);
  #time = "";

  constructor(private readonly options: LogOptions) {}

  /** Another file. */
  begin(): void {
    this.offset = 0;
    this.#rest = Buffer.alloc(0);
  }

  *add(chunk: Buffer): Generator<string> {
    let data = Buffer.concat([this.#rest, chunk]);
    for (let end = data.indexOf(0x0a); end !== -1; end = data.indexOf(0x0a)) {
      yield* this.#line(data.toString("utf8", 0, end));
      data = data.subarray(end + 1);
    }
    this.#rest = Buffer.from(data);
    if (this.#rest.length <= longestLineBytes) return;
    yield* this.#line(this.#rest.toString("utf8"));
    this.#rest = Buffer.alloc(0);
  }

  *flush(): Generator<string> {
    for (const text of this.#assembler.flush()) yield* this.#shown(text);
  }

  *#line(line: string): Generator<string> {
    const piece = parseLogLine(line);
    this.#time = piece.time;
    const text = this.#assembler.add(piece);
    if (text !== undefined) yield* this.#shown(text);
  }

  *#shown(text: string): Generator<string> {
    const { sinceMs, timestamps, prefix } = this.options;
    if (sinceMs !== undefined && Date.parse(this.#time) < sinceMs) return;
    yield `${prefix}${timestamps ? `${this.#time} ` : ""}${text}\n`;
  }
}
