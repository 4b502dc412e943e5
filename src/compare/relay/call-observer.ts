/** Reads both directions of one HTTP/2 connection of a gRPC client, and reports its calls. Changes nothing. */
import { messageOf } from "../../lib/errors.js";
import {
  FrameReader,
  frameFlag,
  frameType,
  HeaderBlockReader,
  ProtocolError,
  withoutPadding,
  type Frame,
} from "../../lib/http2/frames.js";
import { HpackDecoder, type HeaderField } from "../../lib/http2/hpack.js";
import { type Budget, MessageReader, type ObservedMessage } from "./message-reader.js";
import type { Tap } from "./relay.js";

export interface ObservedStatus {
  /** Number of gRPC. */
  readonly code: number;
  readonly message: string;
}

export interface ObservedCall {
  /** As `/runtime.v1.RuntimeService/Version`. */
  readonly path: string;
  readonly requests: readonly ObservedMessage[];
  readonly responses: readonly ObservedMessage[];
  /** Messages are missing: they were too large, or too many. */
  readonly isTruncated: boolean;
  /** Undefined when the server gave none: the client cancelled, or the connection ended. */
  readonly status: ObservedStatus | undefined;
  readonly end: "answered" | "cancelled" | "disconnected";
  /** On the clock of `now`. */
  readonly startedMs: number;
  readonly endedMs: number;
}

export interface CallObserverOptions {
  readonly budget: Budget;
  /** The messages may be used during this call alone, unless they are copied. */
  readonly onCall: (call: ObservedCall) => void;
  /** The connection is not observed any more. */
  readonly onGivenUp: (reason: string) => void;
  /** Milliseconds, never set back. */
  readonly now: () => number;
}

interface OpenCall {
  readonly path: string;
  readonly requests: MessageReader;
  readonly responses: MessageReader;
  readonly startedMs: number;
  status: ObservedStatus | undefined;
}

/** What peers may agree on; those of the CRI stay at 16 KiB. */
const largestPayloadBytes = 1024 * 1024;
/** What peers may agree on; those of the CRI stay at 4 KiB. */
const largestTableBytes = 64 * 1024;
/** Servers allow some hundred. */
const maximumOpenCalls = 2000;
const largestText = 64 * 1024;
const largestPath = 256;

/** One direction of a connection. */
class Direction {
  readonly frames: FrameReader;
  readonly blocks = new HeaderBlockReader();
  readonly decoder = new HpackDecoder(largestTableBytes);

  constructor(readonly from: "client" | "server") {
    this.frames = new FrameReader({ from, largestPayloadBytes });
  }
}

/** After the first violation of the protocol it ignores the connection. It never throws. */
export class CallObserver implements Tap {
  #client: Direction | undefined = new Direction("client");
  #server: Direction | undefined = new Direction("server");
  readonly #calls = new Map<number, OpenCall>();
  #lastStreamId = 0;

  constructor(private readonly options: CallObserverOptions) {}

  get openCalls(): number {
    return this.#calls.size;
  }

  fromClient(chunk: Buffer): void {
    this.#read(this.#client, chunk);
  }

  fromServer(chunk: Buffer): void {
    this.#read(this.#server, chunk);
  }

  ended(): void {
    for (const [streamId, call] of this.#calls) this.#endCall(streamId, call, "disconnected");
    this.#client = undefined;
    this.#server = undefined;
  }

  #read(direction: Direction | undefined, chunk: Buffer): void {
    if (direction === undefined) return;
    try {
      for (const frame of direction.frames.read(chunk)) this.#readFrame(direction, frame);
    } catch (error) {
      this.#giveUp(messageOf(error));
    }
  }

  #giveUp(reason: string): void {
    this.#client = undefined;
    this.#server = undefined;
    for (const { requests, responses } of this.#calls.values()) {
      requests.release();
      responses.release();
    }
    this.#calls.clear();
    this.options.onGivenUp(reason);
  }

  #readFrame(direction: Direction, frame: Frame): void {
    const block = direction.blocks.read(frame);
    if (block === "part") return;
    if (block !== undefined) {
      // Each block changes the table for the next: also those of calls that are not followed.
      const fields = direction.decoder.decode(block.fields);
      if (direction.from === "client") this.#requestHeaders(block.streamId, fields);
      else this.#responseHeaders(block.streamId, fields);
      if (block.endStream) this.#endOfStream(direction, block.streamId);
      return;
    }
    switch (frame.type) {
      case frameType.data: {
        const call = this.#calls.get(frame.streamId);
        const reader = direction.from === "client" ? call?.requests : call?.responses;
        reader?.read(withoutPadding(frame));
        if ((frame.flags & frameFlag.endStream) !== 0) this.#endOfStream(direction, frame.streamId);
        break;
      }
      case frameType.reset: {
        const call = this.#calls.get(frame.streamId);
        if (call !== undefined) this.#endCall(frame.streamId, call, "cancelled");
        break;
      }
      case frameType.pushPromise:
        throw new ProtocolError("a PUSH_PROMISE");
    }
  }

  #requestHeaders(streamId: number, fields: readonly HeaderField[]): void {
    // Trailers of a request, or of a call that has ended already.
    if (streamId <= this.#lastStreamId) return;
    this.#lastStreamId = streamId;
    if (this.#calls.size >= maximumOpenCalls) throw new ProtocolError("too many calls at a time");
    const { budget, now } = this.options;
    this.#calls.set(streamId, {
      path: (valueOf(fields, ":path") ?? "").slice(0, largestPath),
      requests: new MessageReader(budget),
      responses: new MessageReader(budget),
      startedMs: now(),
      status: undefined,
    });
  }

  #responseHeaders(streamId: number, fields: readonly HeaderField[]): void {
    const call = this.#calls.get(streamId);
    const code = valueOf(fields, "grpc-status");
    if (call === undefined || code === undefined) return;
    const message = percentDecode((valueOf(fields, "grpc-message") ?? "").slice(0, largestText));
    call.status = { code: /^\d{1,9}$/.test(code) ? Number(code) : unknownStatus, message };
  }

  /** A client that has sent everything waits for the answer; a server that has sent everything ends the call. */
  #endOfStream({ from }: Direction, streamId: number): void {
    const call = this.#calls.get(streamId);
    if (call !== undefined && from === "server") this.#endCall(streamId, call, "answered");
  }

  #endCall(streamId: number, call: OpenCall, end: ObservedCall["end"]): void {
    this.#calls.delete(streamId);
    const { path, requests, responses, startedMs, status } = call;
    try {
      this.options.onCall({
        path,
        requests: requests.messages,
        responses: responses.messages,
        isTruncated: requests.isTruncated || responses.isTruncated,
        status,
        end,
        startedMs,
        endedMs: this.options.now(),
      });
    } finally {
      requests.release();
      responses.release();
    }
  }
}

const unknownStatus = 2;

function valueOf(fields: readonly HeaderField[], name: string): string | undefined {
  return fields.findLast((field) => field.name === name)?.value;
}

/** `grpc-message`, as far as it is encoded as the protocol says. */
function percentDecode(text: string): string {
  const bytes: number[] = [];
  for (let index = 0; index < text.length; index += 1) {
    const escape = /^%[0-9a-fA-F]{2}$/.test(text.slice(index, index + 3))
      ? text.slice(index + 1, index + 3)
      : "";
    bytes.push(escape === "" ? text.charCodeAt(index) : Number.parseInt(escape, 16));
    if (escape !== "") index += 2;
  }
  return Buffer.from(bytes).toString("utf8");
}
