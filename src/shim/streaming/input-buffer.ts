import type { Readable } from "node:stream";

/** Counted for each chunk beside its bytes: single bytes must not cost hundreds of times as much. */
const chunkOverheadBytes = 256;

/** Counts the overhead of small chunks. `reader` must have a high-water mark of 0, and call `read`. */
export class InputBuffer {
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  /** `read` was called without a chunk to return. */
  #wanted = false;
  #ended = false;

  constructor(
    private readonly reader: Readable,
    /** The memory that buffered input takes has changed, by so many bytes. */
    private readonly onChange: (change: number) => void,
  ) {}

  /** Memory that the buffered input takes. */
  get bytes(): number {
    return this.#bytes;
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  receive(chunk: Buffer): void {
    if (this.reader.destroyed || this.#ended) return;
    if (this.#wanted) {
      this.#wanted = false;
      this.reader.push(chunk);
      return;
    }
    this.#chunks.push(chunk);
    this.#count(costOf(chunk));
  }

  /** There is no more input: the reader ends after the buffered chunks. */
  end(): void {
    if (this.reader.destroyed || this.#ended) return;
    this.#ended = true;
    if (this.#chunks.length === 0) this.reader.push(null);
  }

  read(): void {
    const chunk = this.#chunks.shift();
    if (chunk === undefined) {
      if (this.#ended) this.reader.push(null);
      else this.#wanted = true;
      return;
    }
    this.reader.push(chunk);
    this.#count(-costOf(chunk));
  }

  clear(): void {
    this.#chunks.length = 0;
    this.#count(-this.#bytes);
  }

  #count(change: number): void {
    if (change === 0) return;
    this.#bytes += change;
    this.onChange(change);
  }
}

function costOf(chunk: Buffer): number {
  return chunk.length + chunkOverheadBytes;
}
