/**
 * Requests whose `:authority` Node.js refuses. A gRPC client that connects to a unix socket may send the path
 * of the socket, which Go servers accept and nghttp2 resets, as it does an empty or absent one; Node.js has
 * no option for it.
 *
 * The clients that send it: kubelets before kubernetes/kubernetes#123463 (2024, which sets `localhost`) with
 * an old grpc-go (measured: 1.27, of kubelet 1.20; newer releases percent-encode the path, which nghttp2
 * accepts), and grpc-java to this day. docs/decisions/0004 has more.
 *
 * The first request of each connection is read before the HTTP/2 library has the connection. When its
 * authority is valid, the library gets the bytes of the client unchanged; otherwise all requests of the
 * connection are rewritten. This file is the only one of the directory that others import.
 */
import type { Socket } from "node:net";
import { messageOf } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import {
  encodeFrame,
  FrameReader,
  frameFlag,
  frameType,
  HeaderBlockReader,
  preface,
  ProtocolError,
  type Frame,
} from "../../../lib/http2/frames.js";
import { HpackDecoder } from "../../../lib/http2/hpack.js";
import { defaultSettings, isSettingsAck, repairAuthority, RequestRewriter } from "./request-rewriter.js";

/** What the HTTP/2 library gets for a chunk of the client. An error ends the connection. */
type Rewrite = (chunk: Buffer) => readonly Buffer[];

interface AcceptOptions {
  /** Hands the connection over: what was read, and how to change that and what follows. */
  readonly handOver: (opening: Buffer, rewrite: Rewrite | undefined) => void;
  readonly log: Logger;
  /** How long to wait for the acknowledgement of our SETTINGS, when the first request came before it. */
  readonly acknowledgementTimeoutMs?: number;
}

/** How long a client may take to send preface and SETTINGS, and to complete a frame or a header block. */
const openingTimeoutMs = 10_000;
/** Acknowledgements of PINGs for a client that does not read them. */
const unsentBytes = 16 * 1024;

/** GOAWAY for a client of which no request was taken: gRPC sends what it has sent to another connection. */
const nothingTaken = encodeFrame(frameType.goAway, 0, 0, Buffer.alloc(8));

/**
 * Reads a connection that has just been accepted, until it is handed over or closed. The result ends it before that: its first
 * request, which may be on its way, is not lost but sent again.
 */
export function acceptConnection(
  socket: Socket,
  { handOver, log, acknowledgementTimeoutMs = 100 }: AcceptOptions,
): () => void {
  const opening = new ConnectionOpening();
  let handshakeTimer: NodeJS.Timeout | undefined = setTimeout(onHandshakeTimeout, openingTimeoutMs);
  let acknowledgementTimer: NodeJS.Timeout | undefined;

  function onData(chunk: Buffer): void {
    try {
      for (const answer of opening.read(chunk)) socket.write(answer);
    } catch (error) {
      refuse(messageOf(error));
      return;
    }
    if (socket.writableLength > unsentBytes) {
      refuse("it does not read answers");
      return;
    }
    switch (opening.verdict) {
      case "acceptable":
        release();
        handOver(opening.bytes, undefined);
        break;
      case "rewrite":
        handOverRewritten();
        break;
      case "acceptable but not acknowledged":
        // Clients acknowledge as soon as they read. The rewriter leaves out a later acknowledgement.
        acknowledgementTimer ??= setTimeout(handOverRewritten, acknowledgementTimeoutMs);
        break;
      case "undecided":
        watch();
    }
  }

  /** The time limit runs while something is incomplete, from the moment when it began. */
  function watch(): void {
    if (opening.atRest) {
      clearTimeout(handshakeTimer);
      handshakeTimer = undefined;
    } else {
      handshakeTimer ??= setTimeout(onHandshakeTimeout, openingTimeoutMs);
    }
  }

  function onHandshakeTimeout(): void {
    refuse("it is too slow");
  }

  function refuse(reason: string): void {
    log.debug({ reason }, "connection refused");
    release();
    socket.destroy();
  }

  function release(): void {
    clearTimeout(handshakeTimer);
    clearTimeout(acknowledgementTimer);
    socket.removeListener("data", onData);
    socket.removeListener("close", release);
    socket.removeListener("end", onEnd);
    socket.pause();
  }

  function onEnd(): void {
    refuse("it ended before its first request");
  }

  function handOverRewritten(): void {
    log.debug("rewriting the requests of a connection");
    release();
    const rewriter = new RequestRewriter({ acknowledged: opening.acknowledged });
    handOver(opening.bytes, (chunk) => rewriter.rewrite(chunk));
  }

  // An 'error' is always followed by 'close'; without a listener it would end the process.
  socket.on("error", (error) => {
    log.debug({ err: error.message }, "connection failed");
  });
  socket.once("close", release);
  socket.once("end", onEnd);
  socket.on("data", onData);
  // gRPC clients send no request before the SETTINGS of the server. The library sends more later.
  socket.write(defaultSettings());
  return () => {
    release();
    socket.end(nothingTaken);
  };
}

type Verdict =
  /** The first request is not complete. */
  | "undecided"
  /** The first request is valid, the acknowledgement of our SETTINGS, which is ours, is to come. */
  | "acceptable but not acknowledged"
  /** The HTTP/2 library may read the connection as it is. */
  | "acceptable"
  /** The requests have to be rewritten. */
  | "rewrite";

/** A header block of the largest size, and some frames besides. */
const largestOpeningBytes = 192 * 1024;

/** What comes until the first request is complete. PINGs are answered here, for keepalive. */
class ConnectionOpening {
  readonly #frames = new FrameReader();
  readonly #blocks = new HeaderBlockReader();
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  #settingsRead = false;
  #acknowledged = false;
  #firstRequest: "acceptable" | "rewrite" | undefined;

  /** Returns the answers to send. A ProtocolError ends the connection. */
  read(chunk: Buffer): Buffer[] {
    const answers: Buffer[] = [];
    for (const frame of this.#frames.read(chunk)) {
      const answer = this.#readFrame(frame);
      if (answer !== undefined) answers.push(answer);
    }
    return answers;
  }

  get verdict(): Verdict {
    if (this.#firstRequest === undefined) return "undecided";
    if (this.#firstRequest === "rewrite") return "rewrite";
    return this.#acknowledged ? "acceptable" : "acceptable but not acknowledged";
  }

  /** Whether the acknowledgement of our SETTINGS has come, and is left out of `bytes`. */
  get acknowledged(): boolean {
    return this.#acknowledged;
  }

  /** Whether preface and SETTINGS are there and nothing is incomplete: such a client may stay silent. */
  get atRest(): boolean {
    return this.#settingsRead && this.#frames.incomplete.length === 0 && !this.#blocks.isOpen;
  }

  /** All that was read but answered PINGs and the acknowledgement of our SETTINGS. */
  get bytes(): Buffer {
    const head = this.#frames.prefaceRead ? [preface] : [];
    return Buffer.concat([...head, ...this.#kept, this.#frames.incomplete]);
  }

  #readFrame(frame: Frame): Buffer | undefined {
    if (!this.#settingsRead && frame.type !== frameType.settings)
      throw new ProtocolError("no SETTINGS at first");
    this.#settingsRead = true;
    const block = this.#blocks.read(frame);
    if (typeof block === "object" && this.#firstRequest === undefined) {
      const fields = new HpackDecoder().decode(block.fields);
      this.#firstRequest = repairAuthority(fields) === fields ? "acceptable" : "rewrite";
    }
    if (block === undefined) {
      const isAck = (frame.flags & frameFlag.ack) !== 0;
      if (frame.type === frameType.ping && !isAck) {
        if (frame.payload.length !== 8) throw new ProtocolError("a PING that is not 8 bytes long");
        return encodeFrame(frameType.ping, frameFlag.ack, 0, frame.payload);
      }
      if (!this.#acknowledged && isSettingsAck(frame)) {
        this.#acknowledged = true;
        return undefined;
      }
    }
    this.#kept.push(frame.bytes);
    this.#keptBytes += frame.bytes.length;
    if (this.#keptBytes > largestOpeningBytes) throw new ProtocolError("too much before the first request");
    return undefined;
  }
}
