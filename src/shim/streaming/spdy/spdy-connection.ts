/**
 * The server's side of SPDY/3.1, as Kubernetes clients speak it (moby/spdystream): they open all streams, know no flow
 * control and ignore settings. What they send is taken or left as a whole: when one stream is not read, the transport is
 * paused, and with it all other streams of the connection.
 */
import type { Duplex } from "node:stream";
import { orAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { FrameParser } from "./frame-parser.js";
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
} from "./frames.js";
import { EmptyHeaderBlocks, HeaderBlockReader } from "./header-block.js";
import { defaultSpdyLimits, type SpdyLimits } from "./limits.js";
import { ReadGate } from "./read-gate.js";
import { ConnectionStream, type SpdyStream, type StreamLink } from "./spdy-stream.js";
import { Transport } from "./transport.js";

export type { SpdyLimits, SpdyStream };

export interface SpdyConnectionOptions {
  /** What was read past the upgrade request. */
  readonly head?: Buffer;
  readonly limits?: Partial<SpdyLimits>;
  /** A stream that the client opened; its SYN_REPLY is on the way. Never called by the constructor itself. */
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
  #unreadBytes = 0;
  /** New streams are refused: this side is about to end the connection, or the client is. */
  #refusing = false;
  #clientLeaves = false;
  /** Nothing is read, sent or opened any more; what was sent may still be on its way. */
  #over = false;
  /** The frames of the chunk that was read last, while some of them are not handled. */
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
      unread: (stream, change) => {
        this.#countUnread(stream, change);
      },
      over: (stream, status, error) => {
        this.#forget(stream, status, error);
      },
    };
  }

  /** Resolves when the connection is over, however that came about, and the transport closed. Never rejects. */
  get closed(): Promise<void> {
    return this.#transport.closed;
  }

  /**
   * The violation of the protocol that ended the connection, or what `onStream` or a listener of a stream threw; undefined
   * for any other end.
   */
  get failure(): ShimError | undefined {
    return this.#failure;
  }

  /** The last DATA or SYN_STREAM frame in either direction, by `performance.now()`. */
  get lastActivityMs(): number {
    return Math.max(this.#lastActivityMs, this.#writer.lastDataMs);
  }

  /**
   * Sends what the streams were given so far, then GOAWAY, and ends the transport; new streams are refused from now on.
   * Ends at once when `signal` aborts; without one, a client that does not read holds it up until `destroy()`. Never
   * rejects.
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
        // It was asked to end at once.
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

  /** A client that sends one header block after another must not keep all others waiting. */
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
      // Also what a listener of a stream threw: its connection is the smallest thing that can be given up.
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
        // They mean nothing here, but all later blocks build on them.
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
          ?.abandon(new ShimError("cancelled", `stream ${String(frame.streamId)}: reset by the client`));
        return;
      case "ping":
        // Even ones would answer a ping of this server.
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

  /** A frame of a stream that was closed a moment ago may have crossed the news; one that never was is an error. */
  #refuseUnknown(streamId: number): void {
    if (streamId % 2 === 0 || streamId > this.#lastStreamId)
      this.#writer.control(rstStreamFrame(streamId, resetStatus.invalidStream));
  }

  #openStream({ streamId, headerBlock, fin, unidirectional }: Extract<Frame, { kind: "synStream" }>): void {
    this.#lastActivityMs = performance.now();
    if (streamId % 2 === 0 || streamId <= this.#lastStreamId)
      throw violation(`stream ${String(streamId)} opened after stream ${String(this.#lastStreamId)}`);
    this.#lastStreamId = streamId;
    // Also of a stream that is refused: all later blocks build on it.
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

  #countUnread(stream: ConnectionStream, change: number): void {
    this.#unreadBytes += change;
    const { unreadBytesPerStream, unreadBytes } = this.#limits;
    this.#holdUp(stream, stream.unreadBytes, unreadBytesPerStream);
    this.#holdUp(this.#streams, this.#unreadBytes, unreadBytes);
  }

  /** Half of the limit must be free before it goes on, or it would stop and go with every chunk. */
  #holdUp(reason: unknown, held: number, limit: number): void {
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

  /** Says goodbye, and reads no more. */
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
      stream.abandon(new ShimError("cancelled", `stream ${String(stream.id)}: ${reason}`));
  }
}
