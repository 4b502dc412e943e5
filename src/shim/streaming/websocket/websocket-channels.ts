/**
 * Channels over one WebSocket, as streams that push back in both directions: what the client does not take is not
 * asked of the source, and what a stream's reader does not take stops the reading of the whole connection.
 */
import { Duplex, Readable, Writable } from "node:stream";
import type { RawData, WebSocket } from "ws";
import { withDeadline, orAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { ChannelCodec } from "./channel-codec.js";
import { ChannelInput } from "../input-buffer.js";
import { clientGone, type ClientConnection } from "../client-connection.js";

/** What unread messages of one channel may take before the reading stops. Per session, and large enough for a paste. */
const unreadLimitBytes = 256 * 1024;
/** Channel number of v5 that says: the channel in the next byte ends. */
const endOfChannel = 255;
/** How long a client may take to answer the close frame after it was sent everything. */
const closeTimeoutMs = 10_000;

export interface ChannelOptions {
  readonly codec: ChannelCodec;
  /** Whether the client can end a channel (v5). */
  readonly halfClose: boolean;
}

export class WebSocketChannels implements ClientConnection {
  readonly closed: Promise<void>;
  #lastActivityMs = performance.now();
  readonly #readers = new Map<number, { receive(data: Buffer): void; end(): void }>();
  readonly #streams = new Set<Readable | Writable>();
  /** Channels whose reader has enough for now. */
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
    // A message that is none: ws has said so to the client.
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

  /** What the client sends on `channel`. To be called before the event loop turns, like the other two. */
  readable(channel: number): Readable {
    const input = new ChannelInput(unreadLimitBytes);
    const stream: Readable = new Readable({
      highWaterMark: 0,
      read: () => this.#read(channel, input, stream),
    });
    return this.#trackReader(channel, stream, input);
  }

  /** What the client is to receive on `channel`. Its end is told to nobody: client-go takes such a message for an error. */
  writable(channel: number): Writable {
    return this.#track(
      channel,
      new Writable({
        write: (chunk: Buffer, _encoding, done) => this.#send(channel, chunk, done),
      }),
    );
  }

  /** Both. Neither side can tell its end alone, so the end of what is written is the end of what is read. */
  duplex(channel: number): Duplex {
    const input = new ChannelInput(unreadLimitBytes);
    const stream: Duplex = new Duplex({
      readableHighWaterMark: 0,
      read: () => this.#read(channel, input, stream),
      write: (chunk: Buffer, _encoding, done) => this.#send(channel, chunk, done),
      final: (done) => {
        this.#readers.get(channel)?.end();
        done();
      },
    });
    return this.#trackReader(channel, stream, input);
  }

  /** An empty message on `channel`: servers have always told in this way that the session is there. */
  announce(channel: number): void {
    this.#send(channel, Buffer.alloc(0), () => undefined);
  }

  /** Ends the connection in order, after everything that was written. Rejects when `signal` aborts before that. */
  async close(signal: AbortSignal): Promise<void> {
    this.#closing = true;
    // The client's answer comes behind whatever it still sends.
    this.ws.resume();
    const sent = new Promise<void>((resolve) => {
      // The callback of a pong comes when all before it has been handed to the system.
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
      else this.#readers.get(data.readUInt8(0))?.end();
    } else if (data.length > 0) {
      // What goes to a channel that was not asked for is dropped, as everywhere.
      this.#readers.get(channel)?.receive(data);
    }
  }

  #track<Stream extends Readable | Writable>(channel: number, stream: Stream): Stream {
    this.#streams.add(stream);
    // Whoever uses the stream hears of its errors; nobody else has to.
    stream.on("error", () => undefined);
    stream.once("close", () => {
      this.#streams.delete(stream);
      this.#readers.delete(channel);
      this.#wantsMore(channel);
    });
    return stream;
  }

  #trackReader<Stream extends Readable>(channel: number, stream: Stream, input: ChannelInput): Stream {
    this.#readers.set(channel, {
      receive: (data) => {
        input.receive(data, stream);
        if (!input.isFull) return;
        this.#full.add(channel);
        this.ws.pause();
      },
      end: () => {
        this.#readers.delete(channel);
        input.end(stream);
      },
    });
    stream.once("close", () => input.clear());
    return this.#track(channel, stream);
  }

  #read(channel: number, input: ChannelInput, reader: Readable): void {
    input.read(reader);
    if (!input.isFull) this.#wantsMore(channel);
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
    this.#readers.clear();
    for (const stream of this.#streams) stream.destroy(clientGone());
    this.#streams.clear();
  }
}

function bufferOf(message: RawData): Buffer {
  if (Buffer.isBuffer(message)) return message;
  return Array.isArray(message) ? Buffer.concat(message) : Buffer.from(message);
}
