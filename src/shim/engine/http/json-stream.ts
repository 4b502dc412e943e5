/**
 * Reads the engine's JSON while it arrives, in bounded memory: where a value ends (`ValueEnd`), the members of a large
 * object that matter (`JsonTrimmer`), the entries of a list of any length (`readList`). Only what is kept is parsed.
 */
import { ShimError } from "../../lib/errors.js";
import { parseJson } from "./json.js";

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];

/** The white space of JSON: space, tab, line ends. */
function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** For one value after the other. What is no JSON ends somewhere, or never: who parses the bytes finds out. */
class ValueEnd {
  #depth = 0;
  #isInString = false;
  /** The next byte of the string is not its end, whatever it is. */
  #isEscaped = false;

  /**
   * The index behind the last byte of the value, which begins or goes on at `from`; undefined when it goes on beyond the
   * chunk. A value must not begin with white space.
   */
  find(chunk: Buffer, from: number): number | undefined {
    // Locals, and no call for a byte: every byte of every list comes through here.
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
          // A number or a word ends before the bracket of what it is in.
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
 * The members of an object that matter, by key: `true` for a whole member, else what matters of that object. Lists have no
 * members: they are kept whole, or not at all.
 */
export interface Essentials {
  readonly [key: string]: true | Essentials;
}

export function members(...keys: readonly string[]): Essentials {
  return Object.fromEntries(keys.map((key) => [key, true]));
}

/** A member that matters and has more bytes of JSON counts as null. */
export const memberLimitBytes = 64 * 1024;
/** Longest key that is compared, in bytes of JSON. */
const keyLimitBytes = 1024;

/** For one value. Holds at most `memberLimitBytes` for each member that matters. */
export class JsonTrimmer {
  readonly #kept: string[] = [];
  /** The objects that are open and of which something matters. */
  readonly #open: Essentials[] = [];
  /** What matters of the next value; undefined: nothing. */
  #next: true | Essentials | undefined;
  #isKeyNext = false;
  #state: "going on" | "whole" | "no JSON" = "going on";

  readonly #end = new ValueEnd();
  /** The key or value that has begun. */
  #token: Piece | undefined;

  constructor(essentials: Essentials) {
    this.#next = essentials;
  }

  /** The small value as JSON; undefined when the large one was cut short, or is no JSON. */
  get text(): string | undefined {
    return this.#state === "whole" ? this.#kept.join("") : undefined;
  }

  /** The next bytes of the value. What follows its end is passed over. */
  push(chunk: Buffer): void {
    let position = 0;
    while (this.#state === "going on" && position < chunk.length) {
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

  /** Answers where to go on. */
  #begin(chunk: Buffer, position: number): number {
    const byte = chunk[position];
    if (isSpace(byte) || byte === comma || byte === colon) return position + 1;
    if (this.#isKeyNext) {
      if (byte === closeBrace) return this.#closeObject(position);
      if (byte !== quote) this.#state = "no JSON";
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

  /** What matters of the member with this key, which is JSON; its beginning is kept then. */
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

/** Empty for what is no JSON. */
function unescape(key: string): string {
  try {
    return String(JSON.parse(key));
  } catch {
    return "";
  }
}

/** An entry with more bytes of JSON is reduced to its essentials. Some twenty times what containers of pods have. */
export const entryLimitBytes = 32 * 1024;

export interface ListReading<T> {
  readonly action: string;
  /** What is kept of an entry that is too large. */
  readonly essentials: Essentials;
  /** Makes of an entry, which is JSON that was parsed, what is to be kept in memory. */
  readonly convert: (entry: unknown) => T;
  /** Told each time that a part of the list has arrived. */
  readonly onProgress?: (() => void) | undefined;
}

/**
 * The entries of a list. Never a part of them: a list that is cut short or no JSON is an error, because what it lacks would
 * be taken for gone. Between two chunks others have their turn.
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

/** Takes a list apart into the JSON of its entries. `null`, which is how Go writes a list without memory, has none. */
class ListSplitter {
  state: "before" | "inside" | "whole" | "no list" = "before";
  readonly #end = new ValueEnd();
  /** Of the entry that has begun. */
  #parts: Buffer[] = [];
  #size = 0;
  #trimmer: JsonTrimmer | undefined;
  #hasBegun = false;

  constructor(private readonly essentials: Essentials) {}

  *push(chunk: Buffer): Generator<string, void> {
    let position = 0;
    while (position < chunk.length && this.state !== "no list") {
      const byte = chunk[position];
      if (this.#hasBegun) {
        const end = this.#end.find(chunk, position);
        this.#add(chunk.subarray(position, end));
        if (end === undefined) return;
        position = end;
        const text = this.#take();
        if (this.state === "inside") yield text;
        else this.state = text === "null" ? "whole" : "no list";
      } else if (isSpace(byte) || (byte === comma && this.state === "inside")) {
        position += 1;
      } else if (byte === openBracket && this.state === "before") {
        this.state = "inside";
        position += 1;
      } else if (byte === closeBracket && this.state === "inside") {
        this.state = "whole";
        position += 1;
      } else if (this.state === "whole") {
        this.state = "no list";
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
