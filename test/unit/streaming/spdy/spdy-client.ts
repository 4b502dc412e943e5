/** A client that sends any frames, and the answers of a server. */
import { constants, createInflate } from "node:zlib";
import type { Duplex } from "node:stream";
import { frameFlag } from "../../../../src/lib/spdy/frames.js";
import { headerDictionary } from "../../../../src/shim/streaming/spdy/header-block.js";
import { BlockWriter, synStream, type HeaderList } from "../../../support/spdy-frames.js";

/** A frame of the server: a control frame with its fields, or a data frame with its payload. */
export type Answer =
  | { readonly type: "data"; readonly streamId: number; readonly fin: boolean; readonly payload: Buffer }
  | { readonly type: number; readonly fields: readonly number[]; readonly payload: Buffer };

export function parseAnswers(bytes: Buffer): Answer[] {
  const answers: Answer[] = [];
  let offset = 0;
  while (offset < bytes.length) {
    const payload = bytes.subarray(offset + 8, offset + 8 + bytes.readUIntBE(offset + 5, 3));
    if ((bytes[offset]! & 0x80) === 0) {
      const fin = (bytes[offset + 4]! & frameFlag.fin) !== 0;
      answers.push({ type: "data", streamId: bytes.readUInt32BE(offset), fin, payload });
    } else {
      const fields = [];
      for (let at = 0; at + 4 <= Math.min(payload.length, 8); at += 4) fields.push(payload.readUInt32BE(at));
      answers.push({ type: bytes.readUInt16BE(offset + 2), fields, payload });
    }
    offset += 8 + payload.length;
  }
  return answers;
}

/** The header blocks of a server, inflated by zlib as one stream. */
export async function inflateBlocks(blocks: readonly Buffer[]): Promise<Buffer> {
  const inflate = createInflate({ dictionary: headerDictionary });
  const parts: Buffer[] = [];
  inflate.on("data", (part: Buffer) => parts.push(part));
  for (const block of blocks) {
    await new Promise<void>((resolve, reject) => {
      inflate.once("error", reject);
      inflate.write(block, () => inflate.flush(constants.Z_SYNC_FLUSH, resolve));
    });
  }
  inflate.close();
  return Buffer.concat(parts);
}

/** The client's end of a transport. */
export class SpdyClient {
  readonly blocks = new BlockWriter();
  readonly #chunks: Buffer[] = [];
  #waiting: (() => void)[] = [];
  ended = false;

  constructor(readonly transport: Duplex) {
    transport.on("data", (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#wake();
    });
    for (const event of ["end", "close"])
      transport.on(event, () => {
        this.ended = true;
        this.#wake();
      });
    transport.on("error", () => undefined);
  }

  send(...frames: readonly Buffer[]): void {
    this.transport.write(Buffer.concat(frames));
  }

  open(streamId: number, headers: HeaderList = [["streamtype", "data"]], flags = 0): Buffer {
    return synStream(streamId, this.blocks.block(headers), flags);
  }

  get answers(): Answer[] {
    return parseAnswers(Buffer.concat(this.#chunks));
  }

  /** Waits for the first answer that `matches`. Throws when the server ends before. */
  async answer(matches: (answer: Answer) => boolean): Promise<Answer> {
    for (;;) {
      const found = this.answers.find(matches);
      if (found !== undefined) return found;
      if (this.ended) throw new Error("the server ended before it gave the answer");
      await this.#news();
    }
  }

  /** Resolves with all answers when the server has ended. */
  async end(): Promise<Answer[]> {
    while (!this.ended) await this.#news();
    return this.answers;
  }

  #news(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** The payloads on this stream so far. */
  received(streamId: number): Buffer {
    return Buffer.concat(
      this.answers.flatMap((one) =>
        one.type === "data" && "streamId" in one && one.streamId === streamId ? one.payload : [],
      ),
    );
  }
}
