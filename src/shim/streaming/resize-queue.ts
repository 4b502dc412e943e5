/** Sizes of the client's terminal: a sequence of JSON objects in chunks of any size. */
import type { Readable } from "node:stream";
import type { TerminalSize } from "../ports/streaming.js";

/** A size takes 30 bytes. */
const longestObject = 1024;
const largestSide = 65_535;

/** Finds the sizes in a stream of bytes. All input after malformed input is ignored. */
export class ResizeParser {
  #rest = "";
  #broken = false;

  /** The sizes that `chunk` completes. Those with a side below 1 are left out, as in dockershim. */
  parse(chunk: Uint8Array): readonly TerminalSize[] {
    const sizes: TerminalSize[] = [];
    if (this.#broken) return sizes;
    const parts = (this.#rest + Buffer.from(chunk).toString("latin1")).split("}");
    this.#rest = parts.pop() ?? "";
    for (const part of parts) {
      const size = parseSize(`${part}}`);
      if (size === "broken") {
        this.#broken = true;
        break;
      }
      if (size.columns >= 1 && size.rows >= 1) sizes.push(size);
    }
    if (this.#rest.length > longestObject) this.#broken = true;
    if (this.#broken) this.#rest = "";
    return sizes;
  }
}

function parseSize(text: string): TerminalSize | "broken" {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "broken";
  }
  if (typeof value !== "object" || value === null) return "broken";
  // Go's decoder ignores the case of field names, so clients use any.
  const fields = new Map(Object.entries(value).map(([name, side]) => [name.toLowerCase(), side as unknown]));
  const columns = fields.get("width") ?? 0;
  const rows = fields.get("height") ?? 0;
  return isSide(columns) && isSide(rows) ? { columns, rows } : "broken";
}

function isSide(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= largestSide;
}

/** The latest size, for one reader. A size that was not consumed before the next one arrived is skipped. */
export class ResizeQueue implements AsyncIterable<TerminalSize> {
  #latest: TerminalSize | undefined;
  #ended = false;
  #wake: (() => void) | undefined;

  /** Takes the sizes that the client sends on a stream. */
  readFrom(stream: Readable | undefined): void {
    const parser = new ResizeParser();
    stream?.on("data", (chunk: Buffer) => {
      for (const size of parser.parse(chunk)) this.put(size);
    });
  }

  put(size: TerminalSize): void {
    if (this.#ended) return;
    this.#latest = size;
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TerminalSize, void, undefined> {
    for (;;) {
      const size = this.#latest;
      if (size !== undefined) {
        this.#latest = undefined;
        yield size;
      } else if (this.#ended) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = undefined;
      }
    }
  }
}
