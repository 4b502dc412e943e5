/** One request of a client: its message as it comes, its deadline, and its answer. */
import { encodeFields, type HeaderField } from "../../../lib/http2/hpack.js";
import type { IncomingCall } from "../instrument.js";
import { status, type CallStatus } from "../status.js";

/** What kubelets and crictl accept, and what this server does. */
export const largestMessageBytes = 16 * 1024 * 1024;
/** In front of a message: whether it is compressed, and its length (big endian). */
export const messageHeadBytes = 5;
/** Longer than a method's path, a traceparent and all else that is read of a request's fields, in characters. */
const longestValue = 1024;
/** The longest delay of a timer of Node.js. */
const longestTimerMs = 2 ** 31 - 1;
const millisecondsPerUnit: Readonly<Record<string, number>> = {
  ...{ H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 },
};

/** What a stream asks of its connection. */
export interface StreamOwner {
  /** The message is complete, and nothing is wrong with it. */
  requested(stream: GrpcStream, message: Buffer): void;
  /** Something waits to be sent. */
  flush(stream: GrpcStream): void;
  /** The deadline has passed while the answer waits for room. */
  giveUp(stream: GrpcStream): void;
}

export class GrpcStream implements IncomingCall {
  readonly path: string;
  readonly traceParent: string | undefined;
  /** The caller has left, or its deadline has passed. */
  cancelled = false;
  /** The client has sent all of its request. */
  remoteEnded = false;
  /** Bytes that the client may send, and that it may be sent. */
  receiveWindow: number;
  sendWindow: number;
  /** Bytes that came since the client was last told of more room. */
  received = 0;
  headersSent = false;
  /** Pieces of DATA that wait for room. */
  readonly out: Buffer[] = [];
  /** The fields of the end, once the answer is complete. */
  trailers: Buffer | undefined;
  /** Nothing is sent or taken any more. */
  closed = false;
  #request = Buffer.alloc(0);
  #requestBytes = 0;
  #cancelListener: (() => void) | undefined;
  #sent: (() => void)[] = [];
  readonly #deadlineMs: number;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(
    readonly id: number,
    fields: readonly HeaderField[],
    private readonly owner: StreamOwner,
    windows: { readonly receive: number; readonly send: number },
  ) {
    this.receiveWindow = windows.receive;
    this.sendWindow = windows.send;
    // Nothing else is kept of them: 256 KiB for each of many streams are too much.
    this.path = valueOf(fields, ":path") ?? "";
    this.traceParent = valueOf(fields, "traceparent");
    const timeoutMs = parseTimeout(valueOf(fields, "grpc-timeout"));
    this.#deadlineMs = Date.now() + timeoutMs;
    if (timeoutMs !== Infinity)
      this.#timer = setTimeout(() => this.#expire(), Math.min(timeoutMs, longestTimerMs));
    const encoding = valueOf(fields, "grpc-encoding") ?? "identity";
    if (encoding !== "identity") this.finish(compressed);
  }

  once(_event: "cancelled", listener: () => void): void {
    this.#cancelListener = listener;
  }

  removeListener(): void {
    this.#cancelListener = undefined;
  }

  getDeadline(): number {
    return this.#deadlineMs;
  }

  /** A part of the request. What is wrong is answered at once. */
  receive(data: Buffer, end: boolean): void {
    // It was answered, and the answer waits for room.
    if (this.trailers !== undefined) return;
    if (this.#requestBytes === 0 && end) this.#take(data);
    else this.#keep(data, end);
  }

  /** The client has left or reset the stream. */
  cancel(): void {
    this.close();
    this.#abort();
  }

  /** Sends the message of a server stream; resolves when it has left. */
  write(message: Buffer): Promise<void> {
    if (this.closed) return Promise.resolve();
    return new Promise((resolve) => {
      this.#sent.push(resolve);
      this.#queue(message);
      this.owner.flush(this);
    });
  }

  /** Sends the end, with `message` before it. */
  finish({ code, details }: Partial<CallStatus> & { code: number }, message?: Buffer): void {
    if (this.closed || this.trailers !== undefined) return;
    if (message !== undefined) this.#queue(message);
    this.trailers = code === status.OK ? okTrailers : trailersOf(code, details ?? "");
    this.owner.flush(this);
  }

  /** All of `out` was sent. */
  drained(): void {
    for (const sent of this.#sent.splice(0)) sent();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.#timer);
    this.out.length = 0;
    this.drained();
  }

  #abort(): void {
    if (this.cancelled) return;
    this.cancelled = true;
    this.#cancelListener?.();
  }

  #expire(): void {
    this.#abort();
    if (this.trailers !== undefined) this.owner.giveUp(this);
    else this.finish({ code: status.DEADLINE_EXCEEDED, details: "the deadline of the call has passed" });
  }

  /** Copies: a piece would keep all of the buffer that it was read into. */
  #keep(data: Buffer, end: boolean): void {
    const length = this.#requestBytes + data.length;
    if (length > this.#request.length) {
      const grown = Buffer.allocUnsafeSlow(
        Math.max(length, Math.min(2 * this.#request.length, largestHeldBytes)),
      );
      this.#request.copy(grown, 0, 0, this.#requestBytes);
      this.#request = grown;
    }
    data.copy(this.#request, this.#requestBytes);
    this.#requestBytes = length;
    if (end || length >= messageHeadBytes) this.#take(this.#request.subarray(0, length), end);
  }

  /** Judges what has come of the message. */
  #take(bytes: Buffer, end = true): void {
    if (bytes.length < messageHeadBytes) {
      this.finish(bytes.length === 0 ? noMessage : brokenMessage);
      return;
    }
    const length = bytes.readUInt32BE(1);
    const rest = bytes.length - messageHeadBytes - length;
    if (bytes[0] !== 0) this.finish(compressed);
    else if (length > largestMessageBytes) this.finish(tooLarge(length));
    else if (rest > 0) this.finish(secondMessage);
    else if (end && rest < 0) this.finish(brokenMessage);
    else if (end) {
      this.#request = Buffer.alloc(0);
      this.owner.requested(this, bytes.subarray(messageHeadBytes));
    }
  }

  #queue(message: Buffer): void {
    const head = Buffer.alloc(messageHeadBytes);
    head.writeUInt32BE(message.length, 1);
    this.out.push(head, message);
  }
}

const largestHeldBytes = largestMessageBytes + messageHeadBytes;

const noMessage = { code: status.INVALID_ARGUMENT, details: "the call contains no request message" };
const secondMessage = {
  code: status.INVALID_ARGUMENT,
  details: "the call contains more than one request message",
};
const brokenMessage = { code: status.INVALID_ARGUMENT, details: "the request message is not complete" };
/** They are not unpacked: many at once would each become 16 MiB. */
const compressed = { code: status.UNIMPLEMENTED, details: "compressed messages are not supported" };

function tooLarge(bytes: number): CallStatus {
  const details = `the request has ${bytes} bytes, at most ${largestMessageBytes} are allowed`;
  return { code: status.RESOURCE_EXHAUSTED, details };
}

/** The first value of that name; undefined for one that is too long, as for none. */
function valueOf(fields: readonly HeaderField[], key: string): string | undefined {
  const value = fields.find(({ name }) => name === key)?.value;
  return value === undefined || value.length > longestValue ? undefined : value;
}

/** Milliseconds of a grpc-timeout; Infinity without one. */
function parseTimeout(text: string | undefined): number {
  const [, amount, unit = ""] = /^(\d{1,8})([HMSmun])$/.exec(text ?? "") ?? [];
  return amount === undefined ? Infinity : Math.ceil(Number(amount) * (millisecondsPerUnit[unit] ?? 0));
}

const field = (name: string, value: string): HeaderField => ({ name, value, neverIndexed: false });
/** The fields in front of each answer. */
export const responseFields = encodeFields([
  field(":status", "200"),
  field("content-type", "application/grpc"),
]);
const okTrailers = encodeFields([field("grpc-status", "0")]);

function trailersOf(code: number, details: string): Buffer {
  const message = details === "" ? [] : [field("grpc-message", percentEncode(details))];
  return encodeFields([field("grpc-status", String(code)), ...message]);
}

/**
 * All bytes of UTF-8 but printable ASCII without `%`, as the protocol of gRPC asks for; and a space at an end, where
 * the value of a field must not have one (RFC 9113 §8.2.1): nghttp2 drops such a field.
 */
function percentEncode(text: string): string {
  return text.replace(/^ | $|[^ -$&-~]+/gu, (part) =>
    [...Buffer.from(part)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(""),
  );
}
