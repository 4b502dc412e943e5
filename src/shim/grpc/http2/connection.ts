/**
 * A client's connection: HTTP/2 (RFC 9113) as far as gRPC uses it, by this program, as docs/decisions/0038 says. A
 * client can be anyone who may open the socket. So what it can make the server hold has a limit: frames, header blocks
 * and their tables (src/lib/http2), requests that are not complete, streams, answers that it does not read; and so has
 * the time of a client that is silent or does not read.
 */
import type { Socket } from "node:net";
import { messageOf } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import {
  encodeFrame,
  encodeFrameHead,
  FrameReader,
  frameFlag,
  frameType,
  HeaderBlockReader,
  ProtocolError,
  withoutPadding,
  type Frame,
  type HeaderBlock,
} from "../../../lib/http2/frames.js";
import { HpackDecoder } from "../../../lib/http2/hpack.js";
import { GrpcStream, responseFields, type StreamOwner } from "./grpc-stream.js";
import { ResetLimit } from "./reset-limit.js";
import type { UnfinishedRequest, UnfinishedRequests } from "./unfinished-requests.js";

export interface ConnectionOptions {
  readonly log: Logger;
  /** How often a client is asked whether it is there. It has twice as long to answer. */
  readonly keepaliveMs: number;
  readonly unfinished: UnfinishedRequests;
  /** A request with its whole message. */
  readonly onRequest: (stream: GrpcStream, message: Buffer) => void;
}

/** The default of both windows, which this server never changes. */
const windowBytes = 65_535;
const largestWindowBytes = 2 ** 31 - 1;
/** The default of SETTINGS_MAX_FRAME_SIZE, which every client accepts. */
const framePayloadBytes = 16_384;
/** Calls at a time; clients wait with more. */
const largestConcurrency = 1000;
/** Answers to PING and SETTINGS that a client has not read. */
const unsentBytes = 16 * 1024;
/** What is written of an answer at once: more than makes a socket ask to wait for 'drain'. */
const largestWriteBytes = 256 * 1024;
/** How long a client may take to send preface and SETTINGS, and to complete a frame or header block of its first request. */
const openingTimeoutMs = 10_000;
/** A header block of the largest size, and some frames besides. */
const largestOpeningBytes = 192 * 1024;
/** How long a client may take to read what was written before the connection was closed. */
const closeGraceMs = 1_000;

const settingsBytes = 6;
const settingId = { initialWindowSize: 4, maxConcurrentStreams: 3 } as const;
const errorCode = { none: 0, protocol: 1, refusedStream: 7, cancel: 8 } as const;

export class GrpcConnection implements StreamOwner {
  readonly #frames = new FrameReader();
  readonly #blocks = new HeaderBlockReader();
  readonly #decoder = new HpackDecoder();
  readonly #resets = new ResetLimit();
  readonly #streams = new Map<number, GrpcStream>();
  readonly #unfinished = new Map<number, UnfinishedRequest>();
  /** Streams whose answer waits for room, oldest first. */
  readonly #blocked = new Set<GrpcStream>();
  #lastId = 0;
  #settingsRead = false;
  #draining = false;
  #closed = false;
  #receiveWindow = windowBytes;
  #received = 0;
  #sendWindow = windowBytes;
  #streamSendWindow = windowBytes;
  /** The client has taken bytes, or will take more. */
  #hasRoom = false;
  #unsentBytes = 0;
  #unansweredPings = 0;
  #openingTimer: NodeJS.Timeout | undefined;
  readonly #keepaliveTimer: NodeJS.Timeout;

  constructor(
    private readonly socket: Socket,
    private readonly options: ConnectionOptions,
  ) {
    this.#openingTimer = setTimeout(() => this.#refuse("it is too slow"), openingTimeoutMs);
    this.#keepaliveTimer = setInterval(() => this.#askWhetherAlive(), options.keepaliveMs).unref();
    // An 'error' is always followed by 'close'; without a listener it would end the process.
    socket.on("error", (error) => {
      options.log.debug({ err: error.message }, "connection failed");
    });
    socket.once("close", () => this.#release());
    socket.on("data", (chunk: Buffer) => this.#orRefuse(() => this.#read(chunk)));
    socket.on("drain", () => this.#flushBlocked());
    const settings = Buffer.alloc(settingsBytes);
    settings.writeUInt16BE(settingId.maxConcurrentStreams, 0);
    settings.writeUInt32BE(largestConcurrency, 2);
    socket.write(encodeFrame(frameType.settings, 0, 0, settings));
  }

  /** Takes no more requests, and closes the connection when those that are there are answered. */
  shutDown(): void {
    if (this.#closed || this.#draining) return;
    this.#draining = true;
    this.#goAway(errorCode.none);
    this.#endIfIdle();
  }

  /** Closes the connection; calls under way are cancelled. */
  destroy(): void {
    this.socket.destroy();
    this.#release();
  }

  requested(stream: GrpcStream, message: Buffer): void {
    this.options.onRequest(stream, message);
  }

  /** Sends as much of the answer as the client has room for. */
  flush(stream: GrpcStream): void {
    if (this.#closed || stream.closed) return;
    // What a client does not read waits in its streams: their number has a limit, the buffer of a socket has none.
    if (this.socket.writableNeedDrain) {
      this.#block(stream);
      return;
    }
    const parts: Buffer[] = [];
    const { id, out, trailers } = stream;
    // An answer without a message is one header block.
    const isAlone = !stream.headersSent && out.length === 0 && trailers !== undefined;
    if (!stream.headersSent) {
      stream.headersSent = true;
      if (!isAlone) parts.push(encodeFrame(frameType.headers, frameFlag.endHeaders, id, responseFields));
    }
    let waiting = 0;
    for (const each of out) waiting += each.length;
    let room = Math.min(this.#sendWindow, stream.sendWindow, largestWriteBytes);
    while (waiting > 0 && room > 0) {
      const length = Math.min(waiting, room, framePayloadBytes);
      parts.push(encodeFrameHead(frameType.data, 0, id, length));
      takeBytes(out, length, parts);
      waiting -= length;
      room -= length;
      this.#sendWindow -= length;
      stream.sendWindow -= length;
    }
    const ends = waiting === 0 && trailers !== undefined;
    if (ends) {
      const fields = isAlone ? Buffer.concat([responseFields, trailers]) : trailers;
      parts.push(encodeFrame(frameType.headers, frameFlag.endHeaders | frameFlag.endStream, id, fields));
    }
    // The client need not send the rest of a request that is answered.
    if (ends && !stream.remoteEnded) parts.push(resetFrame(id, errorCode.none));
    if (parts.length > 0) this.socket.write(Buffer.concat(parts));
    if (ends) this.#forget(stream);
    else if (waiting > 0) this.#block(stream);
    else {
      this.#blocked.delete(stream);
      this.#finished(id);
      stream.drained();
    }
  }

  /** Until the client takes more; what is held for it meanwhile counts. */
  #block(stream: GrpcStream): void {
    if (this.#blocked.has(stream)) return;
    this.#blocked.add(stream);
    this.#noteUnfinished(stream.id);
    for (const { length } of stream.out) this.#unfinished.get(stream.id)?.grow(length);
  }

  /** Ends a stream whose answer nobody waits for any more. */
  giveUp(stream: GrpcStream): void {
    if (this.#closed || stream.closed) return;
    this.#orRefuse(() => {
      this.#control(resetFrame(stream.id, errorCode.cancel));
      this.#forget(stream);
    });
  }

  #read(chunk: Buffer): void {
    for (const frame of this.#frames.read(chunk)) {
      if (this.#closed) return;
      this.#readFrame(frame);
    }
    // Once for all frames of a chunk: a client could give room by the byte.
    if (this.#hasRoom) this.#flushBlocked();
    this.#watchOpening();
  }

  /** Ends the connection when `work` finds that the client violates the protocol. */
  #orRefuse(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (error instanceof ProtocolError) this.#refuse(messageOf(error));
      else throw error;
    }
  }

  /** Until its first request, a client has little time for what is not complete, and little to say. */
  #watchOpening(): void {
    if (this.#lastId === 0 && this.socket.bytesRead > largestOpeningBytes)
      throw new ProtocolError("too much before the first request");
    const incomplete = !this.#settingsRead || this.#frames.incomplete.length > 0 || this.#blocks.isOpen;
    if (incomplete && this.#lastId === 0) {
      this.#openingTimer ??= setTimeout(() => this.#refuse("it is too slow"), openingTimeoutMs);
    } else if (this.#openingTimer !== undefined) {
      clearTimeout(this.#openingTimer);
      this.#openingTimer = undefined;
    }
  }

  #readFrame(frame: Frame): void {
    if (!this.#settingsRead) {
      if (frame.type !== frameType.settings || (frame.flags & frameFlag.ack) !== 0)
        throw new ProtocolError("no SETTINGS at first");
      this.#settingsRead = true;
    }
    const block = this.#blocks.read(frame);
    if (block === "part") return;
    if (block !== undefined) {
      this.#readHeaders(block);
      return;
    }
    switch (frame.type) {
      case frameType.data:
        this.#readData(frame);
        break;
      case frameType.reset:
        this.#readReset(frame);
        break;
      case frameType.settings:
        this.#readSettings(frame);
        break;
      case frameType.ping:
        this.#readPing(frame);
        break;
      case frameType.windowUpdate:
        this.#readWindowUpdate(frame);
        break;
      case frameType.pushPromise:
        throw new ProtocolError("PUSH_PROMISE of a client");
      // PRIORITY, GOAWAY and what RFC 9113 does not know change nothing here.
    }
  }

  #readHeaders({ streamId, endStream, fields: block }: HeaderBlock): void {
    // Always: the next block may name what this one puts into the table.
    const fields = this.#decoder.decode(block);
    if (streamId % 2 === 0) throw new ProtocolError(`a request on stream ${streamId}`);
    if (streamId <= this.#lastId) {
      // Trailers, also of a stream that was answered meanwhile.
      this.#end(this.#streams.get(streamId), Buffer.alloc(0), endStream);
      return;
    }
    if (this.#draining) return;
    this.#lastId = streamId;
    if (this.#streams.size >= largestConcurrency) {
      this.#control(resetFrame(streamId, errorCode.refusedStream));
      return;
    }
    const windows = { receive: windowBytes, send: this.#streamSendWindow };
    const stream = new GrpcStream(streamId, fields, this, windows);
    // What it was answered may have been too much to hold.
    if (this.#closed) stream.close();
    if (stream.closed) return;
    this.#streams.set(streamId, stream);
    if (endStream) this.#end(stream, Buffer.alloc(0), true);
    else this.#noteUnfinished(streamId);
  }

  #noteUnfinished(streamId: number): void {
    if (this.#unfinished.has(streamId)) return;
    const request = this.options.unfinished.add(this);
    // It may have been the one that was too many, on the connection with the oldest one.
    if (this.#closed) request.finish();
    else this.#unfinished.set(streamId, request);
  }

  #readData(frame: Frame): void {
    const { streamId, payload, flags } = frame;
    // Of a request that came after GOAWAY nothing is taken.
    if (streamId === 0 || (streamId > this.#lastId && !this.#draining))
      throw new ProtocolError(`DATA on stream ${streamId}`);
    const bytes = payload.length;
    this.#receiveWindow -= bytes;
    this.#received += bytes;
    const stream = this.#streams.get(streamId);
    if (stream !== undefined) {
      stream.receiveWindow -= bytes;
      stream.received += bytes;
    }
    if (this.#receiveWindow < 0 || (stream !== undefined && stream.receiveWindow < 0))
      throw new ProtocolError("more DATA than was asked for");
    if (this.#received > windowBytes / 2) {
      this.#control(windowUpdate(0, this.#received));
      this.#receiveWindow += this.#received;
      this.#received = 0;
    }
    this.#end(stream, withoutPadding(frame), (flags & frameFlag.endStream) !== 0);
    if (stream === undefined || stream.closed || stream.remoteEnded || stream.received <= windowBytes / 2)
      return;
    this.#control(windowUpdate(streamId, stream.received));
    stream.receiveWindow += stream.received;
    stream.received = 0;
  }

  /** Passes a part of a request on, and with `end` its end. */
  #end(stream: GrpcStream | undefined, data: Buffer, end: boolean): void {
    if (stream === undefined) return;
    if (stream.remoteEnded) throw new ProtocolError("more than the whole request");
    if (end) {
      stream.remoteEnded = true;
      this.#finished(stream.id);
    } else this.#unfinished.get(stream.id)?.grow(data.length);
    if (!this.#closed) stream.receive(data, end);
  }

  #readReset({ streamId, payload }: Frame): void {
    if (streamId === 0 || payload.length !== 4) throw new ProtocolError("a broken RST_STREAM");
    this.#resets.count();
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return;
    this.#forget(stream);
    stream.cancel();
  }

  #readSettings({ flags, payload, streamId }: Frame): void {
    if (streamId !== 0 || payload.length % settingsBytes !== 0) throw new ProtocolError("broken SETTINGS");
    if ((flags & frameFlag.ack) !== 0) return;
    let windowChange = 0;
    for (let offset = 0; offset < payload.length; offset += settingsBytes) {
      if (payload.readUInt16BE(offset) !== settingId.initialWindowSize) continue;
      const bytes = payload.readUInt32BE(offset + 2);
      if (bytes > largestWindowBytes) throw new ProtocolError(`a window of ${bytes} bytes`);
      windowChange += bytes - this.#streamSendWindow;
      this.#streamSendWindow = bytes;
    }
    this.#control(settingsAck);
    if (windowChange === 0) return;
    for (const stream of this.#streams.values()) stream.sendWindow += windowChange;
    this.#hasRoom = true;
  }

  #readPing({ flags, payload, streamId }: Frame): void {
    if (streamId !== 0 || payload.length !== 8) throw new ProtocolError("a broken PING");
    if ((flags & frameFlag.ack) !== 0) this.#unansweredPings = 0;
    else this.#control(encodeFrame(frameType.ping, frameFlag.ack, 0, payload));
  }

  #readWindowUpdate({ streamId, payload }: Frame): void {
    const bytes = payload.length === 4 ? payload.readUInt32BE(0) & largestWindowBytes : 0;
    if (bytes === 0) throw new ProtocolError("a broken WINDOW_UPDATE");
    const stream = this.#streams.get(streamId);
    if (streamId === 0) this.#sendWindow += bytes;
    else if (stream !== undefined) stream.sendWindow += bytes;
    if (Math.max(this.#sendWindow, stream?.sendWindow ?? 0) > largestWindowBytes)
      throw new ProtocolError("a window that is too large");
    this.#hasRoom = true;
  }

  #flushBlocked(): void {
    this.#hasRoom = false;
    for (const stream of [...this.#blocked]) this.flush(stream);
  }

  /** What answers the client itself. One that does not read must not make the server hold more and more of it. */
  #control(frame: Buffer): void {
    if (this.#closed) return;
    if (this.#unsentBytes > unsentBytes) throw new ProtocolError("it does not read answers");
    this.#unsentBytes += frame.length;
    this.socket.write(frame, () => {
      this.#unsentBytes -= frame.length;
    });
  }

  #askWhetherAlive(): void {
    if (this.#unansweredPings === 2) {
      this.options.log.debug("a client does not answer, or does not read");
      this.destroy();
      return;
    }
    this.#unansweredPings += 1;
    this.socket.write(ping);
  }

  #forget(stream: GrpcStream): void {
    this.#streams.delete(stream.id);
    this.#blocked.delete(stream);
    this.#finished(stream.id);
    stream.close();
    if (this.#draining) this.#endIfIdle();
  }

  #finished(streamId: number): void {
    this.#unfinished.get(streamId)?.finish();
    this.#unfinished.delete(streamId);
  }

  #endIfIdle(): void {
    if (this.#streams.size === 0) this.#close();
  }

  #refuse(reason: string): void {
    if (this.#closed) return;
    this.options.log.debug({ reason }, "connection refused");
    if (this.#lastId === 0) {
      this.destroy();
      return;
    }
    this.#goAway(errorCode.protocol);
    this.#close();
  }

  #goAway(code: number): void {
    const payload = Buffer.alloc(8);
    payload.writeUInt32BE(this.#lastId, 0);
    payload.writeUInt32BE(code, 4);
    this.socket.write(encodeFrame(frameType.goAway, 0, 0, payload));
  }

  /** What was written before is sent, if the client reads it soon. */
  #close(): void {
    this.#release();
    this.socket.destroySoon();
    const timer = setTimeout(() => this.socket.destroy(), closeGraceMs).unref();
    this.socket.once("close", () => clearTimeout(timer));
  }

  #release(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#openingTimer);
    clearInterval(this.#keepaliveTimer);
    for (const request of this.#unfinished.values()) request.finish();
    this.#unfinished.clear();
    this.#blocked.clear();
    const streams = [...this.#streams.values()];
    this.#streams.clear();
    for (const stream of streams) stream.cancel();
  }
}

const settingsAck = encodeFrame(frameType.settings, frameFlag.ack, 0, Buffer.alloc(0));
const ping = encodeFrame(frameType.ping, 0, 0, Buffer.alloc(8));

function resetFrame(streamId: number, code: number): Buffer {
  return encodeFrame(frameType.reset, 0, streamId, numberBytes(code));
}

function windowUpdate(streamId: number, bytes: number): Buffer {
  return encodeFrame(frameType.windowUpdate, 0, streamId, numberBytes(bytes));
}

function numberBytes(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value, 0);
  return bytes;
}

/** Moves the first `length` bytes of `from` to `to`. */
function takeBytes(from: Buffer[], length: number, to: Buffer[]): void {
  let rest = length;
  while (rest > 0) {
    const [first] = from;
    if (first === undefined) return;
    if (first.length <= rest) {
      from.shift();
      to.push(first);
    } else {
      from[0] = first.subarray(rest);
      to.push(first.subarray(0, rest));
    }
    rest -= Math.min(rest, first.length);
  }
}
