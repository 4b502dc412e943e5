import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { HpackDecoder } from "../../../src/lib/http2/hpack.js";
import { clientPreface, flags, frame, settings, settingsAck, types } from "./http2-writer.js";

export interface ReceivedFrame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

export interface Http2Answer {
  /** Fields of all header blocks of the stream. */
  readonly fields: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Error code of RST_STREAM. */
  readonly reset?: number;
}

/** A client that sends exactly the bytes it is told, and reads as a gRPC client does. */
export class Http2Client implements Disposable {
  readonly frames: ReceivedFrame[] = [];
  readonly #decoder = new HpackDecoder();
  readonly #streams = new Map<
    number,
    { fields: Record<string, string>; body: Buffer[]; reset?: number; done: boolean }
  >();
  #pending = Buffer.alloc(0);
  /** What must not get between the bytes of `writeSlowly`. */
  #heldAcknowledgements: Buffer[] | undefined;
  #onFrame: () => void = () => undefined;

  private constructor(
    readonly socket: Socket,
    readonly acknowledge: boolean,
  ) {
    socket.on("data", (chunk: Buffer) => {
      this.#pending = Buffer.concat([this.#pending, chunk]);
      this.#read();
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.#onFrame();
    });
  }

  static async connect(path: string, options: { acknowledge?: boolean } = {}): Promise<Http2Client> {
    const socket = connect(path);
    await once(socket, "connect");
    return new Http2Client(socket, options.acknowledge ?? true);
  }

  /** Preface and SETTINGS; resolves when the SETTINGS of the server are there, as gRPC clients wait for them. */
  async open(): Promise<void> {
    this.write(clientPreface, settings);
    await this.until(() =>
      this.frames.some(({ type, flags: bits }) => type === types.settings && bits === 0),
    );
  }

  write(...chunks: readonly Buffer[]): void {
    this.socket.write(Buffer.concat(chunks));
  }

  /** One write per byte, each in a turn of its own. */
  async writeSlowly(...chunks: readonly Buffer[]): Promise<void> {
    this.#heldAcknowledgements = [];
    for (const byte of Buffer.concat(chunks)) {
      this.socket.write(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    const held = this.#heldAcknowledgements;
    this.#heldAcknowledgements = undefined;
    this.write(...held);
  }

  async answer(streamId: number): Promise<Http2Answer> {
    await this.until(() => this.#streams.get(streamId)?.done === true);
    const stream = this.#streams.get(streamId);
    if (stream === undefined) throw new Error("no such stream");
    const { fields, body, reset } = stream;
    return { fields, body: Buffer.concat(body), ...(reset === undefined ? {} : { reset }) };
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.socket.destroyed) throw new Error("the server closed the connection");
      await new Promise<void>((resolve) => {
        this.#onFrame = resolve;
      });
    }
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }

  #read(): void {
    for (;;) {
      if (this.#pending.length < 9) break;
      const end = 9 + this.#pending.readUIntBE(0, 3);
      if (this.#pending.length < end) break;
      this.#take({
        type: this.#pending.readUInt8(3),
        flags: this.#pending.readUInt8(4),
        streamId: this.#pending.readUInt32BE(5),
        payload: this.#pending.subarray(9, end),
      });
      this.#pending = this.#pending.subarray(end);
    }
    this.#onFrame();
  }

  #take(received: ReceivedFrame): void {
    this.frames.push(received);
    const { type, streamId, payload } = received;
    if (type === types.settings && received.flags === 0 && this.acknowledge) {
      if (this.#heldAcknowledgements === undefined) this.write(settingsAck);
      else this.#heldAcknowledgements.push(settingsAck);
    }
    if (streamId === 0) return;
    const stream = this.#streams.get(streamId) ?? { fields: {}, body: [], done: false };
    this.#streams.set(streamId, stream);
    if (type === types.headers) {
      for (const { name, value } of this.#decoder.decode(payload)) stream.fields[name] = value;
    }
    if (type === types.data) {
      stream.body.push(payload);
      if (payload.length > 0) this.write(frame(types.windowUpdate, 0, 0, Buffer.from([0, 1, 0, 0])));
    }
    if (type === types.reset) stream.reset = payload.readUInt32BE(0);
    if (
      type === types.reset ||
      ((type === types.data || type === types.headers) && (received.flags & flags.endStream) !== 0)
    ) {
      stream.done = true;
    }
  }
}
