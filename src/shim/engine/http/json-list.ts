/** Reading a list of any length entry by entry, each within a limit. */
import { ShimError } from "../../lib/errors.js";
import { parseJson } from "./answer.js";
import { type Essentials, JsonTrimmer } from "./json-trimmer.js";
import { isSpace, ValueEnd } from "./value-end.js";

/** An entry with more bytes of JSON is reduced to its essentials. Some twenty times what containers of pods have. */
export const entryLimitBytes = 32 * 1024;

const [comma, openBracket, closeBracket] = [0x2c, 0x5b, 0x5d];

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
