/**
 * Header blocks. All blocks of one direction are one zlib stream, flushed after each block, that begins with
 * the dictionary of the protocol: each block may refer to those before, so all of them must be read.
 */
import { constants, inflateRawSync } from "node:zlib";
import { messageOf } from "../../../lib/errors.js";
import { violation } from "../../../lib/spdy/frames.js";
import { headerDictionary, headerDictionaryId } from "./header-dictionary.js";
import type { SpdyLimits } from "./limits.js";

export type Headers = ReadonlyMap<string, string>;

/** The distance of deflate's longest references. */
const windowBytes = 32 * 1024;
const zlibHeaderBytes = 2;
/** The empty stored block that ends a flush (Z_SYNC_FLUSH) at the boundary of a byte. */
const flushed = Buffer.of(0, 0, 0xff, 0xff);
const nothing = Buffer.alloc(0);

/** Reads the header blocks of a client in their order. Not to be used after a violation. */
export class HeaderBlockReader {
  readonly #limits: HeaderLimits;
  /** The output to which the next block may refer; undefined before the first block. */
  #window: Buffer | undefined;

  constructor(limits: HeaderLimits) {
    this.#limits = limits;
  }

  read(block: Buffer): Headers {
    return parseHeaders(this.#inflate(block), this.#limits);
  }

  /**
   * At a flush the only state of an inflater is its window: deflate's blocks are complete and the next one
   * begins at a byte. So each header block is inflated by itself, with the window as its dictionary:
   * synchronously, and without resources to release.
   */
  #inflate(block: Buffer): Buffer {
    let window = this.#window;
    let deflated = block;
    if (window === undefined) ({ window, deflated } = readZlibHeader(block));
    if (!deflated.subarray(-flushed.length).equals(flushed))
      throw violation("a header block that is not flushed");
    const inflated = this.#inflateRaw(deflated, window);
    this.#window = Buffer.concat([window, inflated]).subarray(-windowBytes);
    return inflated;
  }

  #inflateRaw(deflated: Buffer, window: Buffer): Buffer {
    try {
      return inflateRawSync(deflated, {
        ...(window.length > 0 ? { dictionary: window } : {}),
        finishFlush: constants.Z_SYNC_FLUSH,
        maxOutputLength: this.#limits.inflatedHeaderBytes,
        chunkSize: outputChunkBytes,
      });
    } catch (error) {
      if (error instanceof RangeError && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE")
        throw violation(`a header block of more than ${this.#limits.inflatedHeaderBytes} bytes`);
      throw violation(`a header block that cannot be inflated: ${messageOf(error)}`);
    }
  }
}

export type HeaderLimits = Pick<SpdyLimits, "inflatedHeaderBytes" | "headerCount">;

/** Headers of real clients fit into one. */
const outputChunkBytes = 1024;

/** RFC 1950: method and window size, a checksum, and the id of a dictionary. */
function readZlibHeader(block: Buffer): { readonly window: Buffer; readonly deflated: Buffer } {
  if (block.length < zlibHeaderBytes) throw violation("a first header block without a zlib header");
  const head = block.readUInt16BE(0);
  const method = (head >> 8) & 0xf;
  if (method !== 8 || head % 31 !== 0) throw violation("a first header block without a zlib header");
  if ((head & 0x20) === 0) return { window: nothing, deflated: block.subarray(zlibHeaderBytes) };
  const end = zlibHeaderBytes + headerDictionaryId.length;
  if (!block.subarray(zlibHeaderBytes, end).equals(headerDictionaryId))
    throw violation("a header block with an unknown dictionary");
  return { window: headerDictionary, deflated: block.subarray(end) };
}

/** A count, then name and value of each header; count and lengths have 32 bits. */
function parseHeaders(block: Buffer, limits: HeaderLimits): Headers {
  let offset = 0;
  const readNumber = (): number => {
    if (block.length - offset < 4) throw violation("a header block that ends too early");
    offset += 4;
    return block.readUInt32BE(offset - 4);
  };
  const readText = (): string => {
    const length = readNumber();
    if (block.length - offset < length) throw violation("a header block that ends too early");
    offset += length;
    return block.toString("utf8", offset - length, offset);
  };

  const count = readNumber();
  if (count > limits.headerCount) throw violation(`a header block of ${count} headers`);
  const headers = new Map<string, string>();
  for (let index = 0; index < count; index += 1) {
    const name = readText();
    if (name === "" || name !== name.toLowerCase())
      throw violation("a header with an empty or upper-case name");
    if (headers.has(name)) throw violation("a header block with the same name twice");
    const [first = ""] = readText().split("\0", 1);
    headers.set(name, first);
  }
  if (offset < block.length) throw violation("a header block with bytes after its headers");
  return headers;
}

/**
 * The header blocks of the server's replies, which are all empty: a stored block with the count 0, then the
 * flush that Go's reader waits for.
 */
export class EmptyHeaderBlocks {
  #begun = false;

  next(): Buffer {
    if (this.#begun) return emptyBlock;
    this.#begun = true;
    return firstEmptyBlock;
  }
}

const emptyBlock = Buffer.concat([Buffer.of(0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0), Buffer.of(0), flushed]);
/** Deflate with a window of 32 KiB, and a dictionary. */
const firstEmptyBlock = Buffer.concat([Buffer.of(0x78, 0x20), headerDictionaryId, emptyBlock]);
