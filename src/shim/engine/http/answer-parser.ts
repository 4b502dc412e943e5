/** Reads one answer of HTTP/1.1 while it arrives. */

export interface AnswerHead {
  readonly status: number;
  /** By name in lower case; values of one name are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
}

/** What is found, in this order. */
export interface AnswerParts {
  head(head: AnswerHead): void;
  data(chunk: Buffer): void;
  end(): void;
}

/** Code of the error for what is no HTTP/1.1. */
export const notHttpCode = "ERR_NOT_HTTP";

const headLimitBytes = 16 * 1024;
/** Of the line before a chunk, and of a trailer. */
const lineLimitBytes = 4 * 1024;
const start = "HTTP/1.";
const statusLine = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: |$)/;
const headerLine = /^([\w!#$%&'*+\-.^`|~]+):(.*)$/;
const chunkLine = /^([\da-f]{1,13})[ \t]*(?:;.*)?$/i;
const decimal = /^\d{1,15}$/;

type State = "head" | "bytes" | "untilClose" | "chunkLine" | "chunkBytes" | "chunkEnd" | "trailer" | "done";

export class AnswerParser {
  /** Whether the connection can be used for another request after this answer. */
  keepsConnection = true;
  #state: State = "head";
  /** Of a head or a line that has not arrived as a whole. */
  #held: Buffer | undefined;
  /** Bytes to come of the body or chunk. */
  #left = 0;
  #position = 0;

  constructor(
    private readonly method: string,
    private readonly parts: AnswerParts,
  ) {}

  get isDone(): boolean {
    return this.#state === "done";
  }

  /** Returns how many bytes of `chunk` are the answer's: all of them, until it is done. */
  push(chunk: Buffer): number {
    this.#position = 0;
    while (this.#position < chunk.length && this.#state !== "done") this.#step(chunk);
    return this.#position;
  }

  /** The connection has ended. False: in the middle of the answer. */
  endOfConnection(): boolean {
    if (this.#state === "untilClose") this.#end();
    return this.isDone;
  }

  #step(chunk: Buffer): void {
    switch (this.#state) {
      case "head": {
        const text = this.#textBefore("\r\n\r\n", chunk, headLimitBytes);
        if (text !== undefined) this.#beginBody(parseHead(text));
        return;
      }
      case "bytes":
      case "chunkBytes":
        this.#passOn(chunk);
        if (this.#left > 0) return;
        if (this.#state === "bytes") this.#end();
        else this.#state = "chunkEnd";
        return;
      case "untilClose":
        this.#left = Infinity;
        this.#passOn(chunk);
        return;
      default: {
        const line = this.#textBefore("\r\n", chunk, lineLimitBytes);
        if (line !== undefined) this.#takeLine(line);
      }
    }
  }

  #takeLine(line: string): void {
    switch (this.#state) {
      case "chunkLine": {
        const size = chunkLine.exec(line)?.[1];
        if (size === undefined) throw notHttp();
        this.#left = parseInt(size, 16);
        this.#state = this.#left === 0 ? "trailer" : "chunkBytes";
        return;
      }
      case "chunkEnd":
        if (line !== "") throw notHttp();
        this.#state = "chunkLine";
        return;
      default:
        if (line === "") this.#end();
    }
  }

  #passOn(chunk: Buffer): void {
    const end = Math.min(chunk.length, this.#position + this.#left);
    const data = chunk.subarray(this.#position, end);
    this.#left -= data.length;
    this.#position = end;
    this.parts.data(data);
  }

  #end(): void {
    this.#state = "done";
    this.parts.end();
  }

  /** Undefined when `mark` has not arrived. */
  #textBefore(mark: string, chunk: Buffer, limitBytes: number): string | undefined {
    const held = this.#held?.length ?? 0;
    const rest = chunk.subarray(this.#position);
    const bytes = this.#held === undefined ? rest : Buffer.concat([this.#held, rest]);
    const end = bytes.indexOf(mark);
    const length = end === -1 ? bytes.length : end;
    const isWrong =
      this.#state === "head" && !bytes.toString("latin1", 0, start.length).startsWith(start.slice(0, length));
    if (length > limitBytes || isWrong) throw notHttp();
    this.#held = end === -1 ? bytes : undefined;
    this.#position = end === -1 ? chunk.length : this.#position - held + end + mark.length;
    return end === -1 ? undefined : bytes.toString("latin1", 0, end);
  }

  /** RFC 9112, 6.3. */
  #beginBody({ isOld, ...head }: ParsedHead): void {
    const { status, headers } = head;
    const { connection, "content-length": length, "transfer-encoding": encoding } = headers;
    // `100 Continue`, `103 Early Hints`: the answer follows.
    if (status < 200 && status !== 101) return;
    if (isOld || /\bclose\b/i.test(connection ?? "")) this.keepsConnection = false;
    if (encoding !== undefined && (length !== undefined || encoding.toLowerCase() !== "chunked"))
      throw notHttp();
    if (length !== undefined && !decimal.test(length)) throw notHttp();
    const hasNone = this.method === "HEAD" || status === 101 || status === 204 || status === 304;
    this.#left = hasNone ? 0 : Number(length ?? 0);
    if (hasNone || length !== undefined) this.#state = "bytes";
    else this.#state = encoding === undefined ? "untilClose" : "chunkLine";
    if (this.#state === "untilClose") this.keepsConnection = false;
    this.parts.head(head);
    if (this.#state === "bytes" && this.#left === 0) this.#end();
  }
}

interface ParsedHead extends AnswerHead {
  /** HTTP/1.0. */
  readonly isOld: boolean;
}

function parseHead(text: string): ParsedHead {
  const [first = "", ...lines] = text.split("\r\n");
  const [, minor, status] = statusLine.exec(first) ?? [];
  if (status === undefined) throw notHttp();
  const headers = Object.create(null) as Record<string, string>;
  for (const line of lines) {
    const [, name, padded] = headerLine.exec(line) ?? [];
    if (name === undefined || padded === undefined) throw notHttp();
    const key = name.toLowerCase();
    const value = padded.trim();
    const known = headers[key];
    headers[key] = known === undefined ? value : `${known}, ${value}`;
  }
  return { status: Number(status), headers, isOld: minor === "0" };
}

function notHttp(): Error {
  return Object.assign(new Error("the answer is not HTTP"), { code: notHttpCode });
}
