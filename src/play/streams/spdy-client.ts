/** The client's side of SPDY/3.1, which every CRI server speaks, and in which a stream can half-close. */
import { Duplex } from "node:stream";
import { ShimError } from "../../lib/errors.js";
import { FrameParser } from "../../lib/spdy/frame-parser.js";
import {
  controlFrame,
  dataFrameHeader,
  frameType,
  pingFrame,
  rstStreamFrame,
  resetStatus,
  type Frame,
} from "../../lib/spdy/frames.js";

type Done = (error?: Error | null) => void;

const controlFrameBytes = 64 * 1024;
/** The most bytes of one data frame: servers read a frame as a whole. */
const dataBytes = 32 * 1024;

/** The server has reset a stream, or the connection has ended. */
export class StreamLost extends ShimError {}

export class SpdyClient {
  /** Resolves when the connection has ended. Never rejects. */
  readonly closed: Promise<void>;
  readonly #parser = new FrameParser({ frameBytes: controlFrameBytes, ignoresReplies: true });
  readonly #streams = new Map<number, ClientStream>();
  /** Streams whose reader is behind; reading pauses for all. */
  readonly #full = new Set<ClientStream>();
  #nextId = 1;
  #failure: ShimError = new StreamLost("unavailable", "the server of the streams has ended the connection");

  /** Takes over an upgraded transport; `head` is what followed the answer to the upgrade. */
  constructor(
    private readonly transport: Duplex,
    head: Buffer,
  ) {
    transport.on("error", (error) => {
      const reason = `the connection broke: ${error.message}`;
      this.#failure = new StreamLost("unavailable", reason, {}, { cause: error });
    });
    this.closed = new Promise((resolve) =>
      transport.once("close", () => {
        for (const stream of this.#streams.values()) stream.lose(this.#failure);
        this.#streams.clear();
        resolve();
      }),
    );
    transport.once("end", () => transport.destroy());
    if (head.length > 0) transport.unshift(head);
    transport.on("data", (chunk: Buffer) => this.#read(chunk));
  }

  /** Opens a stream. Its errors are events of the stream. */
  open(headers: Readonly<Record<string, string>>): Duplex {
    const id = this.#nextId;
    this.#nextId += 2;
    const stream = new ClientStream({
      send: (data, fin, done) => this.#sendData(id, data, fin, done),
      wantsMore: () => {
        if (this.#full.delete(stream) && this.#full.size === 0) this.transport.resume();
      },
      over: (wasReset) => {
        this.#streams.delete(id);
        this.#full.delete(stream);
        if (this.#full.size === 0) this.transport.resume();
        if (wasReset && !this.transport.destroyed)
          this.transport.write(rstStreamFrame(id, resetStatus.cancel));
      },
    });
    this.#streams.set(id, stream);
    // Both 0: the stream that this one belongs to, and priority.
    const fields = [id, 0];
    const block = Buffer.concat([Buffer.alloc(2), headerBlock(headers, { isFirst: id === 1 })]);
    this.transport.write(controlFrame(frameType.synStream, 0, fields, block));
    return stream;
  }

  get isEnded(): boolean {
    return this.transport.destroyed;
  }

  destroy(): void {
    this.transport.destroy();
  }

  #sendData(id: number, data: Buffer, fin: boolean, done: Done): void {
    if (this.transport.destroyed) {
      done(this.#failure);
      return;
    }
    this.transport.cork();
    let offset = 0;
    while (data.length - offset > dataBytes) {
      this.transport.write(dataFrameHeader(id, dataBytes, { fin: false }));
      this.transport.write(data.subarray(offset, offset + dataBytes));
      offset += dataBytes;
    }
    this.transport.write(dataFrameHeader(id, data.length - offset, { fin }));
    this.transport.write(data.subarray(offset), done);
    this.transport.uncork();
  }

  #read(chunk: Buffer): void {
    try {
      for (const frame of this.#parser.read(chunk)) this.#handle(frame);
    } catch (error) {
      this.#failure = ShimError.from(error);
      this.transport.destroy();
    }
  }

  #handle(frame: Frame): void {
    switch (frame.kind) {
      case "data": {
        const stream = this.#streams.get(frame.streamId);
        if (stream !== undefined && frame.bytes.length > 0 && !stream.push(frame.bytes)) {
          this.#full.add(stream);
          this.transport.pause();
        }
        if (frame.fin) stream?.endInput();
        return;
      }
      case "rstStream":
        this.#streams
          .get(frame.streamId)
          ?.lose(new StreamLost("cancelled", `the server has reset the stream (status ${frame.status})`));
        return;
      case "ping":
        // Odd ids answer pings of the client, which sends none.
        if (frame.id % 2 === 0) this.transport.write(pingFrame(frame.id));
        return;
      case "headers":
        if (frame.fin) this.#streams.get(frame.streamId)?.endInput();
        return;
      case "goAway":
        // The server closes the connection when it has sent everything.
        return;
      case "synStream":
        return;
    }
  }
}

interface StreamLink {
  send(data: Buffer, fin: boolean, done: Done): void;
  wantsMore(): void;
  /** `wasReset`: the server must learn that. */
  over(wasReset: boolean): void;
}

/** Each half ends by itself. An error without a listener has no effect. */
class ClientStream extends Duplex {
  #inputEnded = false;
  #outputEnded = false;
  #lost = false;

  constructor(private readonly link: StreamLink) {
    super({ readableHighWaterMark: 64 * 1024 });
    this.on("error", () => undefined);
  }

  endInput(): void {
    if (this.#inputEnded) return;
    this.#inputEnded = true;
    this.push(null);
    // Nothing is asked of a stream that has ended; the others must be read on.
    this.link.wantsMore();
  }

  /** The stream is gone on the server's side. What came before it can be read. */
  lose(error: ShimError): void {
    this.#lost = true;
    if (this.#inputEnded) return;
    this.#inputEnded = true;
    if (this.readableLength === 0) this.destroy(error);
    else {
      this.push(null);
      this.once("end", () => this.destroy());
    }
  }

  override _read(): void {
    this.link.wantsMore();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    if (this.#lost) done(new ShimError("cancelled", "the server has ended the stream"));
    else this.link.send(chunk, false, done);
  }

  override _final(done: Done): void {
    this.#outputEnded = true;
    if (this.#lost) done();
    else this.link.send(Buffer.alloc(0), true, done);
  }

  override _destroy(error: Error | null, done: Done): void {
    this.link.over(!this.#lost && !(this.#inputEnded && this.#outputEnded));
    done(error);
  }
}

/** A zlib header that names no dictionary. */
const zlibHeader = Buffer.of(0x78, 0x01);
/** An empty stored block, which ends each header block. */
const flush = Buffer.of(0, 0, 0, 0xff, 0xff);

/** A count, then name and value of each header, in one stored block: the few bytes are not worth deflating. */
function headerBlock(
  headers: Readonly<Record<string, string>>,
  { isFirst }: { readonly isFirst: boolean },
): Buffer {
  const entries = Object.entries(headers);
  const plain = Buffer.concat([number32(entries.length), ...entries.flat().flatMap(counted)]);
  const stored = Buffer.alloc(5);
  stored.writeUInt16LE(plain.length, 1);
  stored.writeUInt16LE(~plain.length & 0xffff, 3);
  return Buffer.concat([isFirst ? zlibHeader : Buffer.alloc(0), stored, plain, flush]);
}

function counted(text: string): readonly Buffer[] {
  const bytes = Buffer.from(text);
  return [number32(bytes.length), bytes];
}

function number32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
