/**
 * Reads the engine's JSON while it arrives, in bounded memory: where a value ends (`ValueEnd`), the members
 * of a large object that matter (`JsonTrimmer`), the entries of a list of any length (`readList`). Only what
 * is kept is parsed.
 */
import { ShimError } from "../../../lib/errors.js";
import { parseJson } from "./json.js";

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];

/** The white space of JSON: space, tab, line ends. */
function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Finds the ends of values one after the other. Malformed JSON ends anywhere: the parser reports it. */
class ValueEnd {
  #depth = 0;
  #isInString = false;
  /** The next byte of the string is not its end, whatever it is. */
  #isEscaped = false;

  /**
   * The index behind the last byte of the value that begins or continues at `from`; undefined when it
   * continues beyond the chunk. A value must not begin with white space.
   */
  find(chunk: Buffer, from: number): number | undefined {
    // Local variables, and no call per byte: every byte of every list comes through here.
    const { length } = chunk;
    let depth = this.#depth;
    let isInString = this.#isInString;
    let end: number | undefined;
    let index = this.#isEscaped && from < length ? from + 1 : from;
    this.#isEscaped &&= from >= length;
    while (index < length) {
      const byte = chunk[index];
      index += 1;
      if (isInString) {
        if (byte === backslash) {
          this.#isEscaped = index === length;
          index += 1;
        } else if (byte === quote) {
          isInString = false;
          if (depth === 0) {
            end = index;
            break;
          }
        }
      } else if (byte === quote) {
        isInString = true;
      } else if (byte === openBrace || byte === openBracket) {
        depth += 1;
      } else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1;
        if (depth <= 0) {
          // A number or a literal ends before the closing bracket around it.
          end = depth < 0 ? index - 1 : index;
          depth = 0;
          break;
        }
      } else if (depth === 0 && (byte === comma || isSpace(byte))) {
        end = index - 1;
        break;
      }
    }
    this.#depth = depth;
    this.#isInString = isInString;
    return end;
  }
}

/**
 * The members of an object to keep, by key: `true` for a whole member, else the members to keep of that
 * object. A list is kept whole, or not at all.
 */
export interface Essentials {
  readonly [key: string]: true | Essentials;
}

export function members(...keys: readonly string[]): Essentials {
  return Object.fromEntries(keys.map((key) => [key, true]));
}

/** A kept member with more bytes of JSON becomes null. */
export const memberLimitBytes = 64 * 1024;
/** Longest key that is compared, in bytes of JSON. */
const keyLimitBytes = 1024;

/** Reduces one large value to its essentials. Holds at most `memberLimitBytes` per kept member. */
export class JsonTrimmer {
  readonly #kept: string[] = [];
  /** The essentials of the objects that are open. */
  readonly #open: Essentials[] = [];
  /** The essentials of the next value; undefined: it is dropped. */
  #next: true | Essentials | undefined;
  #isKeyNext = false;
  #state: "partial" | "whole" | "malformed" = "partial";

  readonly #end = new ValueEnd();
  /** The key or value that has begun. */
  #token: Piece | undefined;

  constructor(essentials: Essentials) {
    this.#next = essentials;
  }

  /** The reduced value as JSON; undefined when the large one was cut short, or is not JSON. */
  get text(): string | undefined {
    return this.#state === "whole" ? this.#kept.join("") : undefined;
  }

  /** The next bytes of the value. Bytes behind its end are ignored. */
  push(chunk: Buffer): void {
    let position = 0;
    while (this.#state === "partial" && position < chunk.length) {
      if (this.#token === undefined) {
        position = this.#begin(chunk, position);
      } else {
        const end = this.#end.find(chunk, position);
        this.#token.add(chunk, position, end ?? chunk.length);
        position = end ?? chunk.length;
        if (end !== undefined) this.#endToken(this.#token);
      }
    }
  }

  /** Returns the position to continue at. */
  #begin(chunk: Buffer, position: number): number {
    const byte = chunk[position];
    if (isSpace(byte) || byte === comma || byte === colon) return position + 1;
    if (this.#isKeyNext) {
      if (byte === closeBrace) return this.#closeObject(position);
      if (byte !== quote) this.#state = "malformed";
    } else if (byte === openBrace && typeof this.#next === "object") {
      this.#open.push(this.#next);
      this.#kept.push("{");
      this.#isKeyNext = true;
      return position + 1;
    }
    const valueLimitBytes = this.#next === undefined ? 0 : memberLimitBytes;
    this.#token = new Piece(this.#isKeyNext ? keyLimitBytes : valueLimitBytes);
    return position;
  }

  #closeObject(position: number): number {
    this.#open.pop();
    this.#kept.push("}");
    if (this.#open.length === 0) this.#state = "whole";
    return position + 1;
  }

  #endToken({ text }: Piece): void {
    this.#token = undefined;
    if (this.#isKeyNext) {
      this.#isKeyNext = false;
      this.#next = text === undefined ? undefined : this.#lookUp(text);
      return;
    }
    if (this.#next !== undefined) this.#kept.push(text ?? "null");
    this.#isKeyNext = true;
    if (this.#open.length === 0) this.#state = "whole";
  }

  /** The essentials of the member with this key (JSON); when there are any, the key is kept. */
  #lookUp(key: string): true | Essentials | undefined {
    const essentials = this.#open.at(-1);
    const name = key.includes("\\") ? unescape(key) : key.slice(1, -1);
    const member = essentials !== undefined && Object.hasOwn(essentials, name) ? essentials[name] : undefined;
    if (member === undefined) return undefined;
    this.#kept.push(this.#kept.at(-1) === "{" ? "" : ",", `${JSON.stringify(name)}:`);
    return member;
  }
}

/** Bytes that arrive in parts, up to a limit. */
class Piece {
  #bytes: Buffer | undefined;
  #size = 0;

  constructor(private readonly limitBytes: number) {}

  /** Undefined when there were too many. */
  get text(): string | undefined {
    return this.#size > this.limitBytes ? undefined : (this.#bytes?.toString("utf8") ?? "");
  }

  add(chunk: Buffer, start: number, end: number): void {
    this.#size += end - start;
    if (this.#size > this.limitBytes) this.#bytes = undefined;
    else if (this.#bytes === undefined) this.#bytes = chunk.subarray(start, end);
    else this.#bytes = Buffer.concat([this.#bytes, chunk.subarray(start, end)]);
  }
}

/** Empty for malformed JSON. */
function unescape(key: string): string {
  try {
    return String(JSON.parse(key));
  } catch {
    return "";
  }
}

/** Larger entries are reduced to their essentials. Entries of pods have a twentieth of this. */
export const entryLimitBytes = 32 * 1024;

export interface ListReading<T> {
  readonly action: string;
  /** The members to keep of an entry that is too large. */
  readonly essentials: Essentials;
  /** Makes the value that is kept in memory of a parsed entry. */
  readonly convert: (entry: unknown) => T;
  /** Told each time that a part of the list has arrived. */
  readonly onProgress?: (() => void) | undefined;
}

/**
 * All entries of a list. A list that is cut short or malformed is an error, because the caller would take the
 * missing entries for removed. Other work runs between two chunks.
 */
export async function readList<T>(
  chunks: AsyncIterable<Buffer>,
  { action, essentials, convert, onProgress }: ListReading<T>,
): Promise<readonly T[]> {
  const splitter = new ListSplitter(essentials);
  const found: T[] = [];
  for await (const chunk of chunks) {
    onProgress?.();
    for (const text of splitter.push(chunk)) found.push(convert(parseJson(text, action)));
  }
  if (splitter.state === "whole") return found;
  throw new ShimError("unknown", `${action}: the engine's answer is no list`);
}

/** Takes a list apart into the JSON of its entries. `null`, as which Go writes a nil slice, has none. */
class ListSplitter {
  state: "before" | "inside" | "whole" | "malformed" = "before";
  readonly #end = new ValueEnd();
  /** Parts of the entry that has begun. */
  #parts: Buffer[] = [];
  #size = 0;
  #trimmer: JsonTrimmer | undefined;
  #hasBegun = false;

  constructor(private readonly essentials: Essentials) {}

  *push(chunk: Buffer): Generator<string, void> {
    let position = 0;
    while (position < chunk.length && this.state !== "malformed") {
      const byte = chunk[position];
      if (this.#hasBegun) {
        const end = this.#end.find(chunk, position);
        this.#add(chunk.subarray(position, end));
        if (end === undefined) return;
        position = end;
        const text = this.#take();
        if (this.state === "inside") yield text;
        else this.state = text === "null" ? "whole" : "malformed";
      } else if (isSpace(byte) || (byte === comma && this.state === "inside")) {
        position += 1;
      } else if (byte === openBracket && this.state === "before") {
        this.state = "inside";
        position += 1;
      } else if (byte === closeBracket && this.state === "inside") {
        this.state = "whole";
        position += 1;
      } else if (this.state === "whole") {
        this.state = "malformed";
      } else {
        this.#hasBegun = true;
      }
    }
  }

  #add(piece: Buffer): void {
    this.#size += piece.length;
    if (this.#trimmer === undefined && this.#size > entryLimitBytes) {
      this.#trimmer = new JsonTrimmer(this.essentials);
      for (const part of this.#parts) this.#trimmer.push(part);
      this.#parts = [];
    }
    if (this.#trimmer === undefined) this.#parts.push(piece);
    else this.#trimmer.push(piece);
  }

  #take(): string {
    const [first, second] = this.#parts;
    const bytes = second === undefined ? first : Buffer.concat(this.#parts, this.#size);
    const text = this.#trimmer === undefined ? bytes?.toString("utf8") : this.#trimmer.text;
    this.#parts = [];
    this.#size = 0;
    this.#trimmer = undefined;
    this.#hasBegun = false;
    return text ?? "";
  }
}
