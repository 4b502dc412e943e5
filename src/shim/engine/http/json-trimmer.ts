/** Makes a large JSON value a small one while it arrives, in bounded memory: what matters of it is kept. */
import { isSpace, ValueEnd } from "./value-end.js";

/**
 * The members of an object that matter, by key: `true` for a whole member, else what matters of that object. Lists have no
 * members: they are kept whole, or not at all.
 */
export interface Essentials {
  readonly [key: string]: true | Essentials;
}

/** A member that matters and has more bytes of JSON counts as null. */
export const memberLimitBytes = 64 * 1024;
/** Longest key that is compared, in bytes of JSON. */
const keyLimitBytes = 1024;

const [quote, colon, comma, openBrace, closeBrace] = [0x22, 0x3a, 0x2c, 0x7b, 0x7d];

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
