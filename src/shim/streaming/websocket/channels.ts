/** Streams over one WebSocket: a reader that does not read pauses the whole connection. */
import { Duplex, Readable, Writable } from "node:stream";
import type { RawData, WebSocket } from "ws";
import { orAbort, withDeadline } from "../../../lib/abort.js";
import { ShimError } from "../../../lib/errors.js";
import { clientGone, type ClientConnection } from "../client-connection.js";
import { InputBuffer } from "../input-buffer.js";
import type { ChannelCodec } from "./channel-codec.js";

/** Buffered messages of one channel before reading is paused: enough for pasted text. */
const bufferLimitBytes = 256 * 1024;
/** Channel number of v5: the channel in the next byte ends. */
const endOfChannel = 255;
/** How long a client may take to answer the close frame. */
const closeTimeoutMs = 10_000;

export interface ChannelOptions {
  readonly codec: ChannelCodec;
  /** Whether the client can end a channel (v5). */
  readonly halfClose: boolean;
}

export class WebSocketChannels implements ClientConnection {
  readonly closed: Promise<void>;
  #lastActivityMs = performance.now();
  readonly #inputs = new Map<number, InputBuffer>();
  readonly #streams = new Set<Readable | Writable>();
  /** Channels whose buffer is full. */
  readonly #full = new Set<number>();
  #failure: ShimError | undefined;
  #closing = false;
  #gone!: () => void;

  constructor(
    private readonly ws: WebSocket,
    private readonly options: ChannelOptions,
  ) {
    ws.on("message", (message) => {
      this.#receive(bufferOf(message));
    });
    this.closed = new Promise((resolve) => {
      this.#gone = resolve;
    });
    // An invalid message: ws has reported it to the client.
    ws.on("error", ({ message }) => {
      this.#failure ??= new ShimError("invalid", `read a message of the client: ${message}`);
      this.#gone();
    });
    ws.once("close", () => {
      this.#onClose();
      this.#gone();
    });
  }

  get failure(): ShimError | undefined {
    return this.#failure;
  }

  get lastActivityMs(): number {
    return this.#lastActivityMs;
  }

  /** Data from the client on `channel`. To be called before the event loop turns, like the other two. */
  readable(channel: number): Readable {
    const stream: Readable = new Readable({ highWaterMark: 0, read: () => input.read() });
    const input = this.#inputOf(channel, stream);
    return this.#track(channel, stream);
  }

  /** Data to the client on `channel`. Its end is not sent: client-go treats such a message as an error. */
  writable(channel: number): Writable {
    return this.#track(
      channel,
      new Writable({ write: (chunk: Buffer, _encoding, done) => this.#send(channel, chunk, done) }),
    );
  }

  /** Both. The protocol has no half-close, so the end of writing is the end of reading. */
  duplex(channel: number): Duplex {
    const stream: Duplex = new Duplex({
      readableHighWaterMark: 0,
      read: () => input.read(),
      write: (chunk: Buffer, _encoding, done) => this.#send(channel, chunk, done),
      final: (done) => {
        this.#endInput(channel);
        done();
      },
    });
    const input = this.#inputOf(channel, stream);
    return this.#track(channel, stream);
  }

  /** Sends an empty message on `channel`, as all servers do when the session is open. */
  announce(channel: number): void {
    this.#send(channel, Buffer.alloc(0), () => undefined);
  }

  /** Ends the connection in order, after all written data. Rejects when `signal` aborts before that. */
  async close(signal: AbortSignal): Promise<void> {
    this.#closing = true;
    // The client's answer comes after the rest of its data.
    this.ws.resume();
    const sent = new Promise<void>((resolve) => {
      // The callback of a pong comes when all data before it is with the system.
      this.ws.pong("", false, () => resolve());
    });
    await orAbort(Promise.race([sent, this.closed]), signal);
    this.ws.close(1000);
    try {
      await withDeadline(signal, closeTimeoutMs, "close the connection", (limit) =>
        orAbort(this.closed, limit),
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ShimError)) throw error;
      this.destroy();
    }
  }

  destroy(): void {
    this.ws.terminate();
  }

  #receive(message: Buffer): void {
    this.#lastActivityMs = performance.now();
    if (this.#closing) return;
    const { codec, halfClose } = this.options;
    const decoded = codec.decode(message);
    if (decoded === undefined) return;
    if (decoded === "malformed") {
      this.#refuse(1007, "malformed message");
      return;
    }
    const { channel, data } = decoded;
    if (halfClose && channel === endOfChannel) {
      if (data.length !== 1) this.#refuse(1002, "one channel can end at a time");
      else this.#endInput(data.readUInt8(0));
    } else if (data.length > 0) {
      // Data on a channel that was not requested is dropped, as by other servers.
      this.#inputs.get(channel)?.receive(data);
    }
  }

  #track<Stream extends Readable | Writable>(channel: number, stream: Stream): Stream {
    this.#streams.add(stream);
    // The session that uses the stream handles its errors.
    stream.on("error", () => undefined);
    stream.once("close", () => {
      this.#streams.delete(stream);
      this.#inputs.delete(channel);
      this.#wantsMore(channel);
    });
    return stream;
  }

  #inputOf(channel: number, stream: Readable): InputBuffer {
    const input = new InputBuffer(stream, () => {
      if (input.bytes < bufferLimitBytes) {
        this.#wantsMore(channel);
        return;
      }
      this.#full.add(channel);
      this.ws.pause();
    });
    this.#inputs.set(channel, input);
    stream.once("close", () => input.clear());
    return input;
  }

  #endInput(channel: number): void {
    const input = this.#inputs.get(channel);
    this.#inputs.delete(channel);
    input?.end();
  }

  #send(channel: number, data: Buffer, done: (error?: Error | null) => void): void {
    const { codec } = this.options;
    this.ws.send(codec.encode(channel, data), { binary: codec.binary }, (error) => {
      this.#lastActivityMs = performance.now();
      done(error ? clientGone() : null);
    });
  }

  #wantsMore(channel: number): void {
    if (this.#full.delete(channel) && this.#full.size === 0) this.ws.resume();
  }

  #refuse(code: number, reason: string): void {
    this.#failure ??= new ShimError("invalid", `read a message of the client: ${reason}`);
    this.ws.close(code, reason);
    this.#gone();
  }

  #onClose(): void {
    this.#inputs.clear();
    for (const stream of this.#streams) stream.destroy(clientGone());
    this.#streams.clear();
  }
}

function bufferOf(message: RawData): Buffer {
  if (Buffer.isBuffer(message)) return message;
  return Array.isArray(message) ? Buffer.concat(message) : Buffer.from(message);
}
