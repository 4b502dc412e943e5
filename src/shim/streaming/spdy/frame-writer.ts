/** Sends the frames of all streams of a connection, one after another. */
import type { Duplex } from "node:stream";
import { dataFrameHeader } from "../../../lib/spdy/frames.js";

/** Payload of one data frame at most: other streams get their turn after it. */
const dataBytes = 64 * 1024;
/** Written before the transport is flushed: enough to make a system call efficient. */
const roundBytes = 256 * 1024;
/** Up to this size, header and payload become one buffer, and one message on a WebSocket. */
const copiedBytes = 2 * 1024;

type Done = (error?: Error | null) => void;

/** One write of a stream, or its end. */
interface Pending {
  readonly streamId: number;
  /** Not sent yet; a part of the first one may be sent. */
  readonly chunks: Buffer[];
  readonly fin: boolean;
  readonly done: Done;
}

/** One pending write per stream. Control frames go first; streams take turns while the transport is full. */
export class FrameWriter {
  /** Pending writes by stream, in the order of their turns. */
  readonly #queue = new Map<number, Pending>();
  /** Writes in the buffer of the transport. */
  readonly #handedOver = new Map<number, Pending>();
  #controlBytes = 0;
  #lastDataMs = 0;
  #pumping = false;
  readonly #onDrain = (): void => {
    this.#drained();
  };

  /** `onControlBacklog`: more than `controlLimitBytes` of control frames wait, or no more. */
  constructor(
    private readonly transport: Duplex,
    private readonly controlLimitBytes: number,
    private readonly onControlBacklog: (backlog: "full" | "gone") => void,
  ) {
    transport.on("drain", this.#onDrain);
  }

  /** When the last data frame was sent, by `performance.now()`. */
  get lastDataMs(): number {
    return this.#lastDataMs;
  }

  /** Sends all frames that `work` writes together: the replies to several frames are one system call. */
  together(work: () => void): void {
    this.transport.cork();
    try {
      work();
    } finally {
      this.transport.uncork();
    }
  }

  control(frame: Buffer): void {
    if (!this.transport.writable) return;
    if (this.transport.write(frame)) return;
    this.#controlBytes += frame.length;
    if (this.#controlBytes > this.controlLimitBytes) this.onControlBacklog("full");
  }

  /** Sends `chunks` and calls `done` when the transport took them. One call at a time for a stream. */
  data(streamId: number, chunks: Buffer[], done: Done): void {
    this.#add({ streamId, chunks, fin: false, done });
  }

  /** The end of what this side sends on the stream. */
  end(streamId: number, done: Done): void {
    this.#add({ streamId, chunks: [], fin: true, done });
  }

  /** Drops the pending write of this stream. Its `done` gets `error`. */
  cancel(streamId: number, error: Error): void {
    const pending = this.#queue.get(streamId) ?? this.#handedOver.get(streamId);
    if (pending === undefined) return;
    this.#queue.delete(streamId);
    this.#handedOver.delete(streamId);
    pending.done(error);
  }

  /** Writes nothing any more. The streams cancel their pending writes. */
  stop(): void {
    this.transport.off("drain", this.#onDrain);
  }

  #add(pending: Pending): void {
    this.#queue.set(pending.streamId, pending);
    this.#pump();
  }

  #drained(): void {
    if (this.#controlBytes > 0) {
      this.#controlBytes = 0;
      this.onControlBacklog("gone");
    }
    const taken = [...this.#handedOver.values()];
    this.#handedOver.clear();
    for (const { done } of taken) done();
    this.#pump();
  }

  #pump(): void {
    const transport = this.transport;
    // `done` may add the next write of its stream.
    if (this.#pumping || this.#isFull()) return;
    this.#pumping = true;
    transport.cork();
    try {
      while (transport.writable && transport.writableLength < roundBytes) {
        const pending = this.#queue.values().next().value;
        if (pending === undefined) break;
        this.#queue.delete(pending.streamId);
        this.#writeFrame(pending);
        if (pending.chunks.length > 0) this.#queue.set(pending.streamId, pending);
        else if (this.#isFull()) this.#handedOver.set(pending.streamId, pending);
        else pending.done();
      }
    } finally {
      this.#pumping = false;
      transport.uncork();
    }
  }

  #isFull(): boolean {
    return this.transport.writableNeedDrain;
  }

  #writeFrame({ streamId, chunks, fin }: Pending): void {
    const { payload, length } = takeUpTo(chunks, dataBytes);
    this.#lastDataMs = performance.now();
    const header = dataFrameHeader(streamId, length, { fin });
    if (length <= copiedBytes) {
      this.transport.write(Buffer.concat([header, ...payload]));
      return;
    }
    this.transport.write(header);
    for (const bytes of payload) this.transport.write(bytes);
  }
}

/** Cuts up to `limitBytes` from the front of `chunks`. */
function takeUpTo(
  chunks: Buffer[],
  limitBytes: number,
): { readonly payload: Buffer[]; readonly length: number } {
  const payload: Buffer[] = [];
  let length = 0;
  while (length < limitBytes) {
    const [chunk] = chunks;
    if (chunk === undefined) break;
    const bytes = chunk.subarray(0, limitBytes - length);
    payload.push(bytes);
    length += bytes.length;
    if (bytes.length < chunk.length) chunks[0] = chunk.subarray(bytes.length);
    else chunks.shift();
  }
  return { payload, length };
}
