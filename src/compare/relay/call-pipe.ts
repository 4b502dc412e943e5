/** Calls on their way from the relay to the process that works on them: a pipe between two processes. */
import { ShimError } from "../../lib/errors.js";
import type { ObservedCall } from "./call-observer.js";
import type { ObservedMessage } from "./message-reader.js";

/** What the relay could not observe so far. */
export interface Unobserved {
  /** Calls that were seen and not handed over, because this process did not keep up. */
  readonly dropped: number;
  /** Connections whose bytes could not be followed. */
  readonly givenUp: number;
}

/** A call without its messages, which follow as bytes. */
interface Head extends Omit<ObservedCall, "requests" | "responses"> {
  readonly requests: readonly MessageHead[];
  readonly responses: readonly MessageHead[];
  readonly unobserved: Unobserved;
}

interface MessageHead {
  readonly length: number;
  readonly compressed: boolean;
}

/** Length of the head and of all that follows it. */
const lengthBytes = 4;
const largestCallBytes = 128 * 1024 * 1024;

export function encodeCall(call: ObservedCall, unobserved: Unobserved): Buffer {
  const { requests, responses, ...rest } = call;
  const heads = { requests: requests.map(headOf), responses: responses.map(headOf) };
  const head: Head = { ...rest, ...heads, unobserved };
  const text = Buffer.from(JSON.stringify(head));
  const bodies = [...requests, ...responses].map(({ bytes }) => bytes);
  const lengths = Buffer.alloc(2 * lengthBytes);
  lengths.writeUInt32BE(text.length, 0);
  lengths.writeUInt32BE(
    bodies.reduce((sum, { length }) => sum + length, 0),
    lengthBytes,
  );
  return Buffer.concat([lengths, text, ...bodies]);
}

function headOf({ bytes, compressed }: ObservedMessage): MessageHead {
  return { length: bytes.length, compressed };
}

export interface PipedCall extends ObservedCall {
  readonly unobserved: Unobserved;
}

/** The calls of a pipe, until it ends. A call that is cut off is left out. */
export async function* readCalls(pipe: AsyncIterable<Buffer>): AsyncGenerator<PipedCall> {
  let chunks: Buffer[] = [];
  let filled = 0;
  let wanted = 2 * lengthBytes;
  for await (const chunk of pipe) {
    chunks.push(chunk);
    filled += chunk.length;
    while (filled >= wanted) {
      const bytes = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
      chunks = [bytes];
      const total = 2 * lengthBytes + bytes.readUInt32BE(0) + bytes.readUInt32BE(lengthBytes);
      if (total > largestCallBytes) throw new ShimError("internal", "a call of the relay is too large");
      wanted = total;
      if (filled < wanted) break;
      yield decodeCall(bytes.subarray(0, total));
      chunks = [bytes.subarray(total)];
      filled -= total;
      wanted = 2 * lengthBytes;
    }
  }
}

function decodeCall(bytes: Buffer): PipedCall {
  let offset = 2 * lengthBytes + bytes.readUInt32BE(0);
  // encodeCall() wrote it.
  const head = JSON.parse(bytes.toString("utf8", 2 * lengthBytes, offset)) as Head;
  const next = ({ length, compressed }: MessageHead): ObservedMessage => {
    const message = { bytes: bytes.subarray(offset, offset + length), compressed };
    offset += length;
    return message;
  };
  return { ...head, requests: head.requests.map(next), responses: head.responses.map(next) };
}
