/**
 * The client's side of SPDY/3.1, for tests: as much as client-go uses, with every frame in the test's hands.
 */
import type { Duplex } from "node:stream";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";

/** zlib's header of a stream with the dictionary of SPDY/3 (its Adler-32); only the first block has it. */
const zlibHeader = Buffer.from([0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2]);

export class ClientStream {
  /** What the server sent, and its end. */
  readonly received = new PassThrough({ highWaterMark: 1 << 30 });
  /** Status of the server's RST_STREAM. */
  resetStatus: number | undefined;
  replied = false;
  ended = false;

  constructor(
    readonly id: number,
    private readonly client: SpdyClient,
  ) {}

  write(data: string | Uint8Array): boolean {
    return this.client.sendData(this.id, Buffer.from(data), 0);
  }

  /** Half-closes. */
  end(data: string | Uint8Array = ""): void {
    this.client.sendData(this.id, Buffer.from(data), 1);
  }

  reset(status = 5): void {
    const payload = Buffer.alloc(8);
    payload.writeUInt32BE(this.id, 0);
    payload.writeUInt32BE(status, 4);
    this.client.sendControl(3, payload);
  }

  text(): Promise<string> {
    return text(this.received);
  }
}

export class SpdyClient {
  readonly streams = new Map<number, ClientStream>();
  /** Status of the server's GOAWAY. */
  goAway: number | undefined;
  readonly closed: Promise<void>;
  #nextId = 1;
  #first = true;
  #buffer = Buffer.alloc(0);

  constructor(
    readonly socket: Duplex,
    head: Buffer = Buffer.alloc(0),
  ) {
    socket.on("error", () => undefined);
    socket.on("data", (chunk: Buffer) => {
      this.#read(chunk);
    });
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        for (const stream of this.streams.values()) stream.received.end();
        resolve();
      });
      socket.once("end", () => socket.end());
    });
    if (head.length > 0) this.#read(head);
    socket.resume();
  }

  open(headers: Readonly<Record<string, string>>, { fin = false } = {}): ClientStream {
    const id = this.#nextId;
    this.#nextId += 2;
    const stream = new ClientStream(id, this);
    this.streams.set(id, stream);
    const head = Buffer.alloc(10);
    head.writeUInt32BE(id, 0);
    this.sendControl(1, Buffer.concat([head, this.#headerBlock(headers)]), fin ? 1 : 0);
    return stream;
  }

  sendData(id: number, data: Buffer, flags: number): boolean {
    const head = Buffer.alloc(8);
    head.writeUInt32BE(id, 0);
    head.writeUInt32BE(data.length, 4);
    head[4] = flags;
    return this.socket.write(Buffer.concat([head, data]));
  }

  sendControl(type: number, payload: Buffer, flags = 0): void {
    const head = Buffer.alloc(8);
    head.writeUInt16BE(0x8003, 0);
    head.writeUInt16BE(type, 2);
    head.writeUInt32BE(payload.length, 4);
    head[4] = flags;
    this.socket.write(Buffer.concat([head, payload]));
  }

  #headerBlock(headers: Readonly<Record<string, string>>): Buffer {
    const number = (value: number): Buffer => {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value);
      return bytes;
    };
    const entries = Object.entries(headers);
    const plain = Buffer.concat([
      number(entries.length),
      ...entries.flatMap(([name, value]) => [
        number(Buffer.byteLength(name)),
        Buffer.from(name.toLowerCase()),
        number(Buffer.byteLength(value)),
        Buffer.from(value),
      ]),
    ]);
    // One stored block, and an empty one that flushes.
    const stored = Buffer.alloc(5);
    stored.writeUInt16LE(plain.length, 1);
    stored.writeUInt16LE(~plain.length & 0xffff, 3);
    const block = Buffer.concat([
      this.#first ? zlibHeader : Buffer.alloc(0),
      stored,
      plain,
      Buffer.from([0, 0, 0, 0xff, 0xff]),
    ]);
    this.#first = false;
    return block;
  }

  #read(chunk: Buffer): void {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    while (this.#buffer.length >= 8) {
      const length = this.#buffer.readUIntBE(5, 3);
      if (this.#buffer.length < 8 + length) return;
      const frame = this.#buffer.subarray(0, 8 + length);
      this.#buffer = this.#buffer.subarray(8 + length);
      this.#handle(frame, frame.subarray(8));
    }
  }

  #handle(frame: Buffer, payload: Buffer): void {
    if (frame.readUInt8(0) < 0x80) {
      const stream = this.streams.get(frame.readUInt32BE(0));
      stream?.received.write(payload);
      if (stream !== undefined && (frame.readUInt8(4) & 1) === 1) {
        stream.ended = true;
        stream.received.end();
      }
      return;
    }
    const type = frame.readUInt16BE(2);
    if (type === 7) this.goAway = payload.readUInt32BE(4);
    if (type === 2) this.streams.get(payload.readUInt32BE(0))!.replied = true;
    if (type === 3) {
      const stream = this.streams.get(payload.readUInt32BE(0));
      if (stream === undefined) return;
      stream.resetStatus = payload.readUInt32BE(4);
      stream.received.end();
    }
  }
}
