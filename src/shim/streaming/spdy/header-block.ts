/** The blocks of a direction are one zlib stream with the protocol's dictionary, flushed after each. */
import { constants, inflateRawSync } from "node:zlib";
import { messageOf } from "../../../lib/errors.js";
import { violation } from "../../../lib/spdy/frames.js";
import type { SpdyLimits } from "./limits.js";

const commonWords = `
  options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges
  age allow authorization cache-control connection content-base content-encoding content-language
  content-length content-location content-md5 content-range content-type date etag expect expires from
  host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location
  max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer
  transfer-encoding upgrade user-agent vary via warning www-authenticate method get status
`
  .trim()
  .split(/\s+/);

/** Each preceded by its length, 32 bits. */
const countedWords = [
  ...commonWords,
  ...["200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"],
];

/** Follows without separators. */
const plainWords = [
  ...[100, 101, 201, 202, 205, 206, 300, 302, 303, 304, 305, 306, 307, 402, 405, 406, 407, 408, 409],
  ...[410, 411, 412, 413, 414, 415, 416, 417, 502, 504, 505],
  ...["203 Non-Authoritative Information", "204 No Content", "301 Moved Permanently", "400 Bad Request"],
  ...["401 Unauthorized", "403 Forbidden", "404 Not Found", "500 Internal Server Error"],
  ...["501 Not Implemented", "503 Service Unavailable", "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec"],
  ...[" 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT", "chunked,text/html,image/png,image/jpg,image/gif,"],
  ...["application/xml,application/xhtml+xml,text/plain,text/javascript,public"],
  ...["privatemax-age=gzip,deflate,", "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."],
];

/** The initial dictionary of both compressors of a SPDY/3 connection: a constant of the protocol. */
export const headerDictionary: Buffer = Buffer.concat([
  ...countedWords.map((word) =>
    Buffer.concat([Buffer.of(0, 0, 0, word.length), Buffer.from(word, "latin1")]),
  ),
  Buffer.from(plainWords.join(""), "latin1"),
]);

/** Its Adler-32, which names it at the beginning of a compressed stream. */
export const headerDictionaryId = Buffer.of(0xe3, 0xc6, 0xa7, 0xc2);

export type Headers = ReadonlyMap<string, string>;

/** The distance of deflate's longest references. */
const windowBytes = 32 * 1024;
const zlibHeaderBytes = 2;
/** The empty stored block that ends a flush (Z_SYNC_FLUSH) at the boundary of a byte. */
const flushed = Buffer.of(0, 0, 0xff, 0xff);
const nothing = Buffer.alloc(0);

/** Reads the header blocks of a client in their order. Not to be used after a violation. */
export class HeaderBlockReader {
  /** The output to which the next block may refer; undefined before the first block. */
  #window: Buffer | undefined;

  constructor(private readonly limits: Pick<SpdyLimits, "inflatedHeaderBytes" | "headerCount">) {}

  read(block: Buffer): Headers {
    return parseHeaders(this.#inflate(block), this.limits);
  }

  /**
   * At a flush the only state of an inflater is its window. So each block is inflated by itself, with the
   * window as its dictionary: synchronously, with nothing to release.
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
        maxOutputLength: this.limits.inflatedHeaderBytes,
        chunkSize: outputChunkBytes,
      });
    } catch (error) {
      if (error instanceof RangeError && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE")
        throw violation(`a header block of more than ${this.limits.inflatedHeaderBytes} bytes`);
      throw violation(`a header block that cannot be inflated: ${messageOf(error)}`);
    }
  }
}

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
function parseHeaders(block: Buffer, { headerCount }: Pick<SpdyLimits, "headerCount">): Headers {
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
  if (count > headerCount) throw violation(`a header block of ${count} headers`);
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

/** Empty: a stored block with the count 0, then the flush that Go's reader waits for. */
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
