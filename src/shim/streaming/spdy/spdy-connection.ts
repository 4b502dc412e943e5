/**
 * The server's side of SPDY/3.1, as Kubernetes clients implement it (moby/spdystream): they open all streams,
 * have no flow control and ignore settings. So when one stream is not read, the transport is paused, and all
 * other streams of the connection with it.
 */
import type { Duplex } from "node:stream";
import { orAbort } from "../../../lib/abort.js";
import { ShimError } from "../../../lib/errors.js";
import { FrameParser } from "../../../lib/spdy/frame-parser.js";
import { FrameWriter } from "./frame-writer.js";
import {
  emptySettingsFrame,
  goAwayFrame,
  goAwayStatus,
  pingFrame,
  resetStatus,
  rstStreamFrame,
  synReplyFrame,
  violation,
  type Frame,
  type GoAwayStatus,
} from "../../../lib/spdy/frames.js";
import { EmptyHeaderBlocks, HeaderBlockReader } from "./header-block.js";
import { defaultSpdyLimits, type SpdyLimits } from "./limits.js";
import { ConnectionStream, type SpdyStream, type StreamLink } from "./spdy-stream.js";
import { ReadGate, Transport } from "./transport.js";

export type { SpdyLimits, SpdyStream };

export interface SpdyConnectionOptions {
  /** Bytes that were read behind the upgrade request. */
  readonly head?: Buffer;
  readonly limits?: Partial<SpdyLimits>;
  /** The client opened a stream; its SYN_REPLY is sent. Never called by the constructor itself. */
  readonly onStream: (stream: SpdyStream) => void;
}

export class SpdyConnection {
  readonly #transport: Transport;
  readonly #limits: SpdyLimits;
  readonly #onStream: (stream: SpdyStream) => void;
  readonly #parser: FrameParser;
  readonly #headerBlocks: HeaderBlockReader;
  readonly #replyBlocks = new EmptyHeaderBlocks();
  readonly #writer: FrameWriter;
  readonly #gate: ReadGate;
  readonly #streams = new Map<number, ConnectionStream>();
  readonly #link: StreamLink;
  #failure: ShimError | undefined;
  #lastActivityMs = performance.now();
  #lastStreamId = 0;
  #bufferedBytes = 0;
  /** New streams are refused: this side or the client is about to end the connection. */
  #refusing = false;
  #clientLeaves = false;
  /** Nothing is read, sent or opened any more; sent data may still be in transit. */
  #over = false;
  /** The frames of the last chunk, while some of them are not handled. */
  #frames: Iterator<Frame, void, undefined> | undefined;
  #nextTurn: NodeJS.Immediate | undefined;

  /** Takes over an upgraded transport: a socket, or the Duplex of a WebSocket. */
  constructor(transport: Duplex, { head, limits, onStream }: SpdyConnectionOptions) {
    this.#limits = { ...defaultSpdyLimits, ...limits };
    this.#onStream = onStream;
    this.#parser = new FrameParser(this.#limits);
    this.#headerBlocks = new HeaderBlockReader(this.#limits);
    this.#writer = new FrameWriter(transport, this.#limits.unsentControlBytes, (backlog) => {
      if (backlog === "full") this.#gate.close(this.#writer);
      else this.#gate.open(this.#writer);
    });
    this.#transport = new Transport(transport, head, this.#limits.lingerMs, {
      onData: (chunk) => {
        this.#frames = this.#parser.read(chunk);
        this.#writer.together(() => {
          this.#handleFrames();
        });
      },
      onGone: () => {
        this.destroy();
      },
    });
    this.#gate = new ReadGate(this.#transport, this.#limits.probeMs, () => {
      this.#writer.control(emptySettingsFrame());
    });
    this.#link = {
      send: (streamId, chunks, done) => {
        this.#writer.data(streamId, chunks, done);
      },
      sendEnd: (streamId, done) => {
        this.#writer.end(streamId, done);
      },
      buffered: (stream, change) => {
        this.#countBuffered(stream, change);
      },
      over: (stream, status, error) => {
        this.#forget(stream, status, error);
      },
    };
  }

  /** Resolves when the connection has ended for any reason and the transport is closed. Never rejects. */
  get closed(): Promise<void> {
    return this.#transport.closed;
  }

  /** The protocol violation, or the error of `onStream` or a stream's listener, that ended the connection. */
  get failure(): ShimError | undefined {
    return this.#failure;
  }

  /** The last DATA or SYN_STREAM frame in either direction, by `performance.now()`. */
  get lastActivityMs(): number {
    return Math.max(this.#lastActivityMs, this.#writer.lastDataMs);
  }

  /**
   * Sends what was written, then GOAWAY, and ends the transport; refuses new streams. At once when `signal`
   * aborts; without it, a client that does not read blocks it. Never rejects.
   */
  async close(signal?: AbortSignal): Promise<void> {
    this.#refusing = true;
    const closing = Promise.all([...this.#streams.values()].map((stream) => stream.flushed())).then(() => {
      // Behind the last byte: clients of Go read nothing after it.
      this.#end(goAwayStatus.ok);
      return this.closed;
    });
    if (signal !== undefined) {
      try {
        await orAbort(closing, signal);
        return;
      } catch {
        this.destroy();
      }
    }
    await closing;
  }

  /** Ends everything at once. */
  destroy(): void {
    this.#stop("the client is gone");
    this.#transport.destroy();
  }

  /** A client that sends one header block after another must not block other connections. */
  #handleFrames(): void {
    let headerBlocks = 0;
    try {
      while (!this.#over) {
        const next = this.#frames?.next();
        if (next?.value === undefined) return;
        const frame = next.value;
        this.#handle(frame);
        if (!("headerBlock" in frame)) continue;
        headerBlocks += 1;
        if (headerBlocks < this.#limits.headerBlocksPerTurn) continue;
        this.#gate.close(this.#parser);
        this.#nextTurn = setImmediate(() => {
          this.#gate.open(this.#parser);
          this.#handleFrames();
        });
        return;
      }
    } catch (error) {
      // Also an error of a stream's listener: only the whole connection can be ended safely.
      const failure = ShimError.from(error);
      this.#failure ??= failure;
      this.#end(failure.kind === "invalid" ? goAwayStatus.protocolError : goAwayStatus.internalError);
    }
  }

  #handle(frame: Frame): void {
    switch (frame.kind) {
      case "data":
        this.#handleData(frame);
        return;
      case "synStream":
        this.#openStream(frame);
        return;
      case "headers": {
        // Their content is not used, but all later blocks refer to them.
        this.#headerBlocks.read(frame.headerBlock);
        const stream = this.#streams.get(frame.streamId);
        if (stream === undefined) this.#refuseUnknown(frame.streamId);
        else if (stream.remoteEnded) stream.reset(resetStatus.streamAlreadyClosed);
        else if (frame.fin) stream.receiveEnd();
        return;
      }
      case "rstStream":
        this.#streams
          .get(frame.streamId)
          ?.abandon(new ShimError("cancelled", `stream ${frame.streamId}: reset by the client`));
        return;
      case "ping":
        // Even ids answer pings of the server, which sends none.
        if (frame.id % 2 === 1) this.#writer.control(pingFrame(frame.id));
        return;
      case "goAway":
        this.#refusing = true;
        this.#clientLeaves = true;
        this.#endWithLastStream();
        return;
    }
  }

  #handleData({ streamId, bytes, last, fin }: Extract<Frame, { kind: "data" }>): void {
    this.#lastActivityMs = performance.now();
    const stream = this.#streams.get(streamId);
    if (stream === undefined) {
      if (last) this.#refuseUnknown(streamId);
    } else if (stream.remoteEnded) {
      stream.reset(resetStatus.streamAlreadyClosed);
    } else {
      stream.receive(bytes);
      if (fin) stream.receiveEnd();
    }
  }

  /** Normal for a stream that was just closed, an error for one that was never opened. */
  #refuseUnknown(streamId: number): void {
    if (streamId % 2 === 0 || streamId > this.#lastStreamId)
      this.#writer.control(rstStreamFrame(streamId, resetStatus.invalidStream));
  }

  #openStream({ streamId, headerBlock, fin, unidirectional }: Extract<Frame, { kind: "synStream" }>): void {
    this.#lastActivityMs = performance.now();
    if (streamId % 2 === 0 || streamId <= this.#lastStreamId)
      throw violation(`stream ${streamId} opened after stream ${this.#lastStreamId}`);
    this.#lastStreamId = streamId;
    // Also for a refused stream: all later blocks refer to this one.
    const headers = this.#headerBlocks.read(headerBlock);
    if (this.#refusing || this.#streams.size >= this.#limits.streams) {
      this.#writer.control(rstStreamFrame(streamId, resetStatus.refusedStream));
      return;
    }
    const stream = new ConnectionStream(streamId, headers, this.#link, { unidirectional });
    this.#streams.set(streamId, stream);
    if (!unidirectional) this.#writer.control(synReplyFrame(streamId, this.#replyBlocks.next()));
    if (fin) stream.receiveEnd();
    this.#onStream(stream);
  }

  #countBuffered(stream: ConnectionStream, change: number): void {
    this.#bufferedBytes += change;
    const { bufferedBytesPerStream, bufferedBytes } = this.#limits;
    this.#limit(stream, stream.bufferedBytes, bufferedBytesPerStream);
    this.#limit(this.#streams, this.#bufferedBytes, bufferedBytes);
  }

  /** Half of the limit must be free before it resumes, lest each chunk pauses it. */
  #limit(reason: unknown, held: number, limit: number): void {
    if (held > limit) this.#gate.close(reason);
    else if (held <= limit / 2) this.#gate.open(reason);
  }

  #forget(stream: ConnectionStream, status: number | undefined, error: Error): void {
    this.#streams.delete(stream.id);
    this.#writer.cancel(stream.id, error);
    if (this.#over) return;
    if (status !== undefined) this.#writer.control(rstStreamFrame(stream.id, status));
    this.#endWithLastStream();
  }

  #endWithLastStream(): void {
    if (this.#clientLeaves && this.#streams.size === 0) this.#end(goAwayStatus.ok);
  }

  /** Sends GOAWAY, and reads no more. */
  #end(status: GoAwayStatus): void {
    if (this.#over) return;
    this.#writer.control(goAwayFrame(this.#lastStreamId, status));
    this.#stop("the connection is closed");
    this.#transport.end();
  }

  #stop(reason: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#frames = undefined;
    clearImmediate(this.#nextTurn);
    this.#gate.dispose();
    this.#writer.stop();
    for (const stream of [...this.#streams.values()])
      stream.abandon(new ShimError("cancelled", `stream ${stream.id}: ${reason}`));
  }
}
