/** Lines of the CRI's log format, from output that arrives in pieces of any size. */

/** Longer lines are cut, as Docker and containerd do it. */
export const longestPieceBytes = 16 * 1024;

/** A piece of the driver json-file, which is text: Docker writes three bytes for each one that is not UTF-8. */
const longestMessageBytes = 3 * longestPieceBytes;

const newline = 0x0a;

/** Collects lines until `take`. */
export class LineBuffer {
  #buffer = Buffer.allocUnsafe(64 * 1024);
  #size = 0;

  /** `<time> <stream> <tag> <text>\n`; the text in two parts. */
  add(time: string, stream: string, tag: "F" | "P", first: Buffer, second: Buffer): void {
    const head = `${time} ${stream} ${tag} `;
    this.#reserve(head.length + first.length + second.length + 1);
    this.#size += this.#buffer.write(head, this.#size, "latin1");
    this.#size += first.copy(this.#buffer, this.#size);
    this.#size += second.copy(this.#buffer, this.#size);
    this.#buffer[this.#size] = newline;
    this.#size += 1;
  }

  /** All lines since the last call. Valid until the next `add`. */
  take(): Buffer {
    const lines = this.#buffer.subarray(0, this.#size);
    this.#size = 0;
    return lines;
  }

  #reserve(bytes: number): void {
    if (this.#size + bytes <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#size + bytes));
    this.#buffer.copy(larger, 0, 0, this.#size);
    this.#buffer = larger;
  }
}

const nothing = Buffer.alloc(0);

/** One stream of a process: raw bytes, cut into lines. */
export class LineAssembler {
  readonly #held = Buffer.allocUnsafe(longestPieceBytes);
  #heldBytes = 0;

  constructor(
    private readonly stream: "stdout" | "stderr",
    private readonly lines: LineBuffer,
  ) {}

  push(data: Buffer, time: string): void {
    let start = 0;
    while (start < data.length) {
      const limit = Math.min(data.length, start + longestPieceBytes - this.#heldBytes);
      const found = data.subarray(start, limit).indexOf(newline);
      if (found >= 0) {
        this.#emit(time, "F", data.subarray(start, start + found));
        start += found + 1;
      } else {
        this.#heldBytes += data.copy(this.#held, this.#heldBytes, start, limit);
        start = limit;
        if (this.#heldBytes === longestPieceBytes) this.#emit(time, "P", nothing);
      }
    }
  }

  /** The stream has ended: the rest has no newline. */
  end(time: string): void {
    if (this.#heldBytes > 0) this.#emit(time, "P", nothing);
  }

  #emit(time: string, tag: "F" | "P", rest: Buffer): void {
    this.lines.add(time, this.stream, tag, this.#held.subarray(0, this.#heldBytes), rest);
    this.#heldBytes = 0;
  }
}

export interface TimedOutput {
  /** There are no frames: a message without a newline ends after 16 KiB. */
  readonly tty: boolean;
  /** Docker 20.10 gives the last piece of a long line of the driver `local` without its newline. */
  readonly losesLineEnds: boolean;
}

/** The logs API with timestamps: each message is a time, a space, and a line or a piece of 16 KiB of one. */
export class TimedLineAssembler {
  #time = "";
  readonly #header: Buffer[] = [];
  #held = Buffer.allocUnsafe(longestPieceBytes);
  #heldBytes = 0;
  #isContinued = false;

  constructor(
    private readonly stream: "stdout" | "stderr",
    private readonly lines: LineBuffer,
    private readonly options: TimedOutput,
  ) {}

  push(data: Buffer): void {
    let start = 0;
    while (start < data.length) {
      if (this.#time === "") {
        const end = data.indexOf(0x20, start);
        this.#header.push(data.subarray(start, end < 0 ? data.length : end));
        if (end < 0) return;
        this.#time = Buffer.concat(this.#header.splice(0)).toString("latin1");
        start = end + 1;
        continue;
      }
      const limit = Math.min(data.length, start + this.#held.length - this.#heldBytes);
      const found = data.subarray(start, limit).indexOf(newline);
      if (found >= 0) {
        this.#emit("F", data.subarray(start, start + found));
        start += found + 1;
      } else {
        this.#heldBytes += data.copy(this.#held, this.#heldBytes, start, limit);
        start = limit;
        if (this.#heldBytes < this.#held.length) continue;
        if (this.options.tty || this.#heldBytes === longestMessageBytes) this.#emit("P", nothing);
        else this.#held = Buffer.concat([this.#held], longestMessageBytes);
      }
    }
  }

  /** Without a newline it is a piece, the last line of a log, or see `losesLineEnds`. */
  end(): void {
    if (this.#time === "") return;
    const isLast = this.#isContinued && this.#heldBytes < longestPieceBytes;
    this.#emit(isLast && this.options.losesLineEnds ? "F" : "P", nothing);
  }

  #emit(tag: "F" | "P", rest: Buffer): void {
    this.lines.add(this.#time, this.stream, tag, this.#held.subarray(0, this.#heldBytes), rest);
    this.#isContinued = tag === "P" && this.#heldBytes >= longestPieceBytes;
    this.#heldBytes = 0;
    this.#time = "";
  }
}

/** Writes all pieces of output that arrive together in one operation. */
export class OutputBatch {
  #work: Promise<void> | undefined;

  constructor(private readonly write: () => Promise<void>) {}

  /** Settles with the one write of all that was given so far, and of what is given in the same turn. */
  settled(): Promise<void> {
    this.#work ??= Promise.resolve().then(() => {
      this.#work = undefined;
      return this.write();
    });
    // The reader may have failed in the meantime, and no longer wait.
    this.#work.catch(() => undefined);
    return this.#work;
  }
}
