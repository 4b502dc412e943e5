/**
 * The client's side of SPDY/3.1, for tests: as much as client-go uses, with every frame in the test's hands.
 */
import type { Duplex } from "node:stream";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { rstStreamFrame } from "../../src/lib/spdy/frames.js";
import { BlockWriter, data, synStream } from "./spdy-frames.js";

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

  write(bytes: string | Uint8Array): boolean {
    return this.client.socket.write(data(this.id, Buffer.from(bytes)));
  }

  /** Half-closes. */
  end(bytes: string | Uint8Array = ""): void {
    this.client.socket.write(data(this.id, Buffer.from(bytes), { fin: true }));
  }

  reset(status = 5): void {
    this.client.socket.write(rstStreamFrame(this.id, status));
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
  readonly #blocks = new BlockWriter();
  #nextId = 1;
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
    const names = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
    this.socket.write(synStream(id, this.#blocks.block(names), fin ? 1 : 0));
    return stream;
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
