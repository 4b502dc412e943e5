/** Frames of SPDY/3.1 as clients and attackers write them. */
import { constants, deflateRawSync } from "node:zlib";
import { controlFrame, dataFrameHeader, frameType } from "../../src/lib/spdy/frames.js";
import { headerDictionary, headerDictionaryId } from "../../src/shim/streaming/spdy/header-block.js";

export type HeaderList = readonly (readonly [name: string, value: string])[];

/** Counts and lengths, without compression. */
export function plainBlock(headers: HeaderList): Buffer {
  const parts = [number(headers.length)];
  for (const text of headers.flat()) {
    const bytes = Buffer.from(text);
    parts.push(number(bytes.length), bytes);
  }
  return Buffer.concat(parts);
}

export function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** The client's half of the header compression. */
export class BlockWriter {
  #window: Buffer | undefined;

  constructor(readonly level = 9) {}

  deflate(plain: Buffer): Buffer {
    const begun = this.#window !== undefined;
    const window = this.#window ?? headerDictionary;
    const block = deflateRawSync(plain, {
      level: this.level,
      dictionary: window,
      finishFlush: constants.Z_SYNC_FLUSH,
    });
    this.#window = Buffer.concat([window, plain]).subarray(-32_768);
    return begun ? block : Buffer.concat([Buffer.of(0x78, 0xf9), headerDictionaryId, block]);
  }

  block(headers: HeaderList): Buffer {
    return this.deflate(plainBlock(headers));
  }
}

export function synStream(streamId: number, block: Buffer, flags = 0): Buffer {
  return controlFrame(frameType.synStream, flags, [streamId, 0], Buffer.concat([Buffer.of(0, 0), block]));
}

export function headersFrame(streamId: number, block: Buffer, flags = 0): Buffer {
  return controlFrame(frameType.headers, flags, [streamId], block);
}

export function data(streamId: number, text: string | Buffer, { fin = false } = {}): Buffer {
  const payload = Buffer.from(text);
  return Buffer.concat([dataFrameHeader(streamId, payload.length, { fin }), payload]);
}
