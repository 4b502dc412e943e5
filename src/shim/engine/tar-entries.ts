/**
 * Removes entries from a tar stream and changes owners. All else passes byte for byte: tar-stream would lose
 * binary values of extended headers, such as file capabilities.
 */
import type { Owner } from "../../domain/node-facts.js";
import { ShimError } from "../../lib/errors.js";

const blockBytes = 512;
/** Largest extended header: paths have 4 KiB, extended attributes of a file 64 KiB each. */
const extendedLimitBytes = 1024 * 1024;
/** Headers that describe the entry behind them: pax, and GNU long names and link names. */
const describesNext = new Set(["x", "L", "K"]);

/**
 * The tar `source` without the entries whose path is in `leaveOut` (without leading `./` or `/`, and without
 * trailing slash). Paths beyond the 100 and 155 characters of the header itself always pass. The source ends
 * with its reader, also when that stops early or fails.
 *
 * An engine with remapped users reads archives with the ids of its host, and writes them with those of the
 * container. `root` is who root of the container is on the host; ids below it pass as they are.
 */
export async function* changedEntries(
  source: AsyncIterable<Buffer>,
  { leaveOut, root }: { readonly leaveOut: ReadonlySet<string>; readonly root?: Owner | undefined },
  action: string,
): AsyncGenerator<Buffer, void, undefined> {
  const reader = new BlockReader(source, action);
  try {
    let described: Buffer[] = [];
    for (;;) {
      const header = await reader.take(blockBytes);
      if (header === undefined) return;
      const { type, size, path } = parseHeader(header, action);
      const padded = Math.ceil(size / blockBytes) * blockBytes;
      if (describesNext.has(type)) {
        if (padded > extendedLimitBytes) throw broken(action, "an extended header is too large");
        described.push(header, await reader.require(padded));
        continue;
      }
      const passes = !leaveOut.has(path) || path === "";
      if (passes && path !== "" && root !== undefined) takeFromOwner(header, root, action);
      if (passes) yield Buffer.concat([...described, header]);
      described = [];
      for await (const chunk of reader.upTo(padded)) if (passes) yield chunk;
    }
  } finally {
    await reader.close();
  }
}

function parseHeader(
  header: Buffer,
  action: string,
): { readonly type: string; readonly size: number; readonly path: string } {
  const text = (start: number, length: number): string => {
    const field = header.subarray(start, start + length);
    const end = field.indexOf(0);
    return field.toString("utf8", 0, end === -1 ? length : end);
  };
  // Two empty blocks are the end; what follows them passes, too.
  if (header.every((byte) => byte === 0)) return { type: "", size: 0, path: "" };
  const prefix = text(257, 5) === "ustar" ? text(345, 155) : "";
  const path = prefix === "" ? text(0, 100) : `${prefix}/${text(0, 100)}`;
  return {
    type: text(156, 1),
    size: parseNumber(header.subarray(124, 136), action),
    path: path.replace(/^(?:\.?\/)+/, "").replace(/\/+$/, ""),
  };
}

/** Octal digits; a number that has too many is a binary one, and its first bit says so. */
function parseNumber(field: Buffer, action: string): number {
  if (((field[0] ?? 0) & 0x80) !== 0) {
    const number = field.readBigUInt64BE(field.length - 8) & (field.length > 8 ? ~0n : binaryMask);
    if (number <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(number);
    throw broken(action, "a number is out of range");
  }
  const digits = field.toString("latin1").replaceAll("\0", " ").trim();
  if (!/^[0-7]*$/.test(digits)) throw broken(action, "a header is malformed");
  return digits === "" ? 0 : Number.parseInt(digits, 8);
}

/** Without the bit that says that a field of 8 bytes has a binary number. */
const binaryMask = 0x7fff_ffff_ffff_ffffn;

function takeFromOwner(header: Buffer, { uid, gid }: Owner, action: string): void {
  for (const [start, first] of [
    [108, uid],
    [116, gid],
  ] as const) {
    const id = parseNumber(header.subarray(start, start + 8), action);
    if (id >= first) header.write(`${(id - first).toString(8).padStart(7, "0")}\0`, start, "latin1");
  }
  header.fill(" ", 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
}

/** Pieces of wanted sizes from chunks of any size. */
class BlockReader {
  readonly #source: AsyncIterator<Buffer>;
  #pending: Buffer = Buffer.alloc(0);

  constructor(
    source: AsyncIterable<Buffer>,
    private readonly action: string,
  ) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Undefined at the end of the source. */
  async take(length: number): Promise<Buffer | undefined> {
    while (this.#pending.length < length) {
      if (await this.#more()) continue;
      if (this.#pending.length === 0) return undefined;
      throw broken(this.action, "it ends within an entry");
    }
    return this.#cut(length);
  }

  async require(length: number): Promise<Buffer> {
    const piece = length === 0 ? Buffer.alloc(0) : await this.take(length);
    if (piece === undefined) throw broken(this.action, "it ends within an entry");
    return piece;
  }

  /** The next `length` bytes, as they come. */
  async *upTo(length: number): AsyncGenerator<Buffer, void, undefined> {
    for (let left = length; left > 0;) {
      if (this.#pending.length === 0 && !(await this.#more()))
        throw broken(this.action, "it ends within an entry");
      const piece = this.#cut(left);
      left -= piece.length;
      yield piece;
    }
  }

  /** Ends the source, wherever it is. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }

  /** False at the end of the source. */
  async #more(): Promise<boolean> {
    const next = await this.#source.next();
    if (next.done === true) return false;
    this.#pending = this.#pending.length === 0 ? next.value : Buffer.concat([this.#pending, next.value]);
    return true;
  }

  #cut(length: number): Buffer {
    const piece = this.#pending.subarray(0, length);
    this.#pending = this.#pending.subarray(piece.length);
    return piece;
  }
}

function broken(action: string, reason: string): ShimError {
  return new ShimError("unknown", `${action}: the engine's answer is not a tar archive: ${reason}`);
}
